//! The WebAssembly engine of the process, in two forms, and the thread that advances their epochs.
//!
//! Both forms run the same code under the same limits. They differ in where memory comes from: a pool makes no system
//! calls between two calls of a skill; without a pool, components of every shape fit. There are a few pools, so that
//! processors rarely contend for one.
//!
//! One configuration compiles the built-in components ahead of time and loads them later on any x86-64 machine, so
//! nothing here depends on the processor beyond a named baseline. The ticker also ends calls whose deadline passes
//! while they wait inside the host. It sleeps while no call runs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use wasmtime::component::Component;
use wasmtime::{Config, Enabled, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::budget::CallBudget;
use super::code::CodeFile;
use crate::Limits;

/// Interval of the epoch. A spinning guest ends this much after its deadline; at 100 Hz the ticking itself costs
/// nothing that can be measured, and it rests while no call runs.
const EPOCH_TICK_MS: u64 = 10;

/// Features that the compiler may assume of every x86-64 processor: the level x86-64-v2, which processors have had
/// since 2009 and to which WebAssembly's vector instructions map well.
const X86_64_BASELINE: [&str; 6] = [
    "has_sse3",
    "has_ssse3",
    "has_sse41",
    "has_sse42",
    "has_popcnt",
    "has_cmpxchg16b",
];

/// Ticks without a call after which the ticker sleeps.
const TICKS_UNTIL_REST: u32 = 100;

/// Linear memories of a component that fits into a pool, and its tables: as many as compilers of languages produce.
const POOL_MEMORIES_PER_COMPONENT: u32 = 2;
const POOL_TABLES_PER_COMPONENT: u32 = 8;

/// Components for which a pool has slots: running calls, calls that wait for a user or a program, components that
/// describe themselves, and readers of symbols.
const POOL_COMPONENTS: u32 = 48;

/// Slots of a pool for their memories and tables.
const POOL_MEMORIES: u32 = POOL_COMPONENTS * POOL_MEMORIES_PER_COMPONENT;
const POOL_TABLES: u32 = POOL_COMPONENTS * POOL_TABLES_PER_COMPONENT;

/// Most pools. Each takes three eighths of a tebibyte of the address space, which has 128.
const POOLS_MAX: usize = 4;

/// Bytes at the start of a memory or table that stay with the pool and are cleared instead of returned to the system:
/// as many as a small skill touches. Returning pages interrupts every processor that runs a thread of this process.
const POOL_KEEPS_BYTES: usize = 512 * 1024;

/// Error for a machine that cannot run compiled code.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the WebAssembly engine does not start: {reason}")]
pub struct EngineError {
    /// The reason that wasmtime gives.
    reason: String,
}

/// A component as native code that can be linked.
pub struct NativeComponent {
    pub(crate) component: Component,
    /// File from which it is mapped; absent if it has memory of its own.
    code: Option<CodeFile>,
}

/// An engine that only compiles.
pub struct Compiler(Engine);

impl Compiler {
    /// A compiler for code that [`Runtime`] loads. For a helper, which runs nothing.
    ///
    /// # Errors
    ///
    /// The machine cannot run the engine.
    pub fn new() -> wasmtime::Result<Self> {
        Ok(Self(Engine::new(&configure_engine(TARGET, baseline_available())?)?))
    }

    /// Compiles a component to native code.
    ///
    /// # Errors
    ///
    /// The component is not valid.
    pub fn compile(&self, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
        self.0.precompile_component(wasm)
    }
}

/// The engines with their ticker.
pub struct Runtime {
    /// Takes memory from the system. Compiles components, and runs those that do not fit into a pool.
    pub(crate) engine: Engine,
    /// Engines whose memory comes from pools. The list is empty if the process has too little address space for a pool.
    pools: Vec<Engine>,
    ticker: Arc<Ticker>,
}

impl Runtime {
    /// The engine of this process, made on first use.
    ///
    /// # Errors
    ///
    /// The machine cannot run compiled code.
    pub fn global() -> Result<&'static Self, EngineError> {
        static RUNTIME: LazyLock<Result<Runtime, String>> =
            LazyLock::new(|| Runtime::new().map_err(|error| format!("{error:#}")));
        RUNTIME
            .as_ref()
            .map_err(|reason| EngineError { reason: reason.clone() })
    }

    fn new() -> wasmtime::Result<Self> {
        let engine = Engine::new(&configure_engine(TARGET, baseline_available())?)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let pools = (0..processors.min(POOLS_MAX)).map(|_| {
            Engine::new(configure_engine(TARGET, baseline_available())?.allocation_strategy(configure_pool()))
                .inspect_err(|error| {
                    tracing::info!(error = format!("{error:#}"), "memory of skills comes without a pool")
                })
        });
        let pools: Vec<Engine> = pools.map_while(Result::ok).collect();
        let ticker = Arc::new(Ticker::default());
        let weak = std::iter::once(&engine)
            .chain(&pools)
            .map(Engine::weak)
            .collect::<Vec<_>>();
        let shared = Arc::clone(&ticker);
        std::thread::Builder::new()
            .name("skill-epoch".to_owned())
            .spawn(move || shared.run(&weak))?;
        Ok(Self { engine, pools, ticker })
    }

    /// Loads compiled code into the engine of the first pool, or into the engine without a pool if it does not fit.
    ///
    /// # Errors
    ///
    /// The code was made for another version, configuration or processor.
    pub fn load(&self, code: &[u8]) -> wasmtime::Result<NativeComponent> {
        if let Some(file) = CodeFile::new(code)
            && let Ok(component) = self.load_where_it_fits(|engine| map_code(engine, &file))
        {
            let code = Some(file);
            return Ok(NativeComponent { component, code });
        }
        let component = self.load_where_it_fits(|engine| deserialize_code(engine, code))?;
        Ok(NativeComponent { component, code: None })
    }

    fn load_where_it_fits(&self, load: impl Fn(&Engine) -> wasmtime::Result<Component>) -> wasmtime::Result<Component> {
        match self.pools.first().map(&load) {
            Some(Ok(component)) => Ok(component),
            _ => load(&self.engine),
        }
    }

    /// A compiler for code that this runtime loads.
    pub fn compiler(&self) -> Compiler {
        Compiler(self.engine.clone())
    }

    /// Identifies the compiler and its configuration.
    pub fn fingerprint(&self) -> String {
        fingerprint_compiler(&self.engine)
    }

    /// Number of further pools if `engine` is that of the first; otherwise 0.
    pub(crate) fn pools_beside(&self, engine: &Engine) -> usize {
        match self.pools.as_slice() {
            [first, others @ ..] if Engine::same(first, engine) => others.len(),
            _ => 0,
        }
    }

    /// Index of the pool for this thread's processor. The thread may move to another processor at any time, which only
    /// costs speed.
    pub(crate) fn pool_here(&self) -> usize {
        match self.pools.len() {
            0 | 1 => 0,
            pools => current_processor() % pools,
        }
    }

    /// Copies a component into another pool.
    pub(crate) fn copy(&self, native: &NativeComponent, pool: usize) -> wasmtime::Result<Component> {
        match &native.code {
            Some(file) => map_code(&self.pools[pool], file),
            None => deserialize_code(&self.pools[pool], &native.component.serialize()?),
        }
    }

    /// Watches a call until it is dropped: cancels its token when its time is over.
    pub(crate) fn watch(&self, call: &Arc<CallBudget>) {
        self.ticker.watch(call);
    }
}

#[cfg(target_os = "linux")]
fn current_processor() -> usize {
    rustix::thread::sched_getcpu()
}

/// This system does not tell the processor, and has no page scan that would make a pool worthwhile.
#[cfg(not(target_os = "linux"))]
fn processor() -> usize {
    0
}

/// Configuration for compiling and loading. `baseline` is false only on a processor that lacks a feature of it:
/// precompiled code does not load there, and components are compiled on the machine.
fn configure_engine(target: &str, baseline: bool) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    // Threads and garbage collection are not compiled in: see the features in `Cargo.toml`.
    config
        .epoch_interruption(true)
        .wasm_component_model(true)
        .concurrency_support(false)
        .memory_init_cow(true)
        // With a named target, the compiler does not use features of the processor at hand.
        .target(target)?;
    if baseline && target.starts_with("x86_64") {
        for flag in X86_64_BASELINE {
            #[expect(
                unsafe_code,
                reason = "the flags name processor features that `baseline_available` has checked"
            )]
            // SAFETY: a wrong flag could make the compiler emit instructions that the processor lacks; these are
            // enabled only where it has them, and code from elsewhere is checked against it before it is loaded.
            unsafe {
                config.cranelift_flag_enable(flag);
            }
        }
    }
    Ok(config)
}

/// Allocates memory ahead of time: slots for all components that can run at once, and 4 GiB of address space for each
/// of their memories, because compiled code omits bounds checks and relies on it.
fn configure_pool() -> InstanceAllocationStrategy {
    let mut pool = PoolingAllocationConfig::default();
    pool.max_memories_per_component(POOL_MEMORIES_PER_COMPONENT)
        .max_memories_per_module(POOL_MEMORIES_PER_COMPONENT)
        .total_memories(POOL_MEMORIES)
        .max_tables_per_component(POOL_TABLES_PER_COMPONENT)
        .max_tables_per_module(POOL_TABLES_PER_COMPONENT)
        .total_tables(POOL_TABLES)
        .table_elements(usize::try_from(Limits::DEFAULT.table_elements).unwrap_or(usize::MAX))
        .linear_memory_keep_resident(POOL_KEEPS_BYTES)
        .table_keep_resident(POOL_KEEPS_BYTES)
        .pagemap_scan(Enabled::Auto)
        // Guests run on the stacks of the threads that call them.
        .total_stacks(0);
    InstanceAllocationStrategy::Pooling(pool)
}

/// Target of compiled code: the one of this build. Code for one C library would load with the other, but the engine
/// requires the program's own target.
const TARGET: &str = if cfg!(all(target_arch = "x86_64", target_env = "musl")) {
    "x86_64-unknown-linux-musl"
} else if cfg!(all(target_arch = "aarch64", target_env = "musl")) {
    "aarch64-unknown-linux-musl"
} else if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
    "x86_64-unknown-linux-gnu"
} else if cfg!(all(target_arch = "aarch64", target_os = "linux")) {
    "aarch64-unknown-linux-gnu"
} else if cfg!(all(target_arch = "x86_64", target_os = "macos")) {
    "x86_64-apple-darwin"
} else {
    "aarch64-apple-darwin"
};

#[cfg(target_arch = "x86_64")]
fn baseline_available() -> bool {
    std::is_x86_feature_detected!("sse3")
        && std::is_x86_feature_detected!("ssse3")
        && std::is_x86_feature_detected!("sse4.1")
        && std::is_x86_feature_detected!("sse4.2")
        && std::is_x86_feature_detected!("popcnt")
        && std::is_x86_feature_detected!("cmpxchg16b")
}

#[cfg(not(target_arch = "x86_64"))]
fn baseline_available() -> bool {
    true
}

/// Identifies the compiler and its configuration.
fn fingerprint_compiler(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Loads compiled code from a sealed file without a name. Only here and in [`deserialize_code`], bytes become native code.
fn map_code(engine: &Engine, code: &CodeFile) -> wasmtime::Result<Component> {
    #[expect(
        unsafe_code,
        reason = "loading compiled code means trusting it; where it comes from is checked above"
    )]
    // SAFETY: the bytes are those that `deserialize` would get, see there. The file is sealed, so that they stay.
    unsafe {
        Component::deserialize_file(engine, code.path())
    }
}

/// Loads compiled code into memory of its own.
fn deserialize_code(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    #[expect(
        unsafe_code,
        reason = "loading compiled code means trusting it; where it comes from is checked above"
    )]
    // SAFETY: `code` was made by wasmtime. It is either embedded in this program by its own build, or it came over a
    // socket from a helper that this process started for it, or it was read from a file that only this user can write
    // and whose digest is the one that we wrote in front of it, or it is a copy of what was loaded from there. wasmtime
    // checks that its own version, configuration and the processor's features fit.
    unsafe {
        Component::deserialize(engine, code)
    }
}

/// Compiles a component for every machine that has the baseline. For the build of the product.
///
/// # Errors
///
/// The component is not valid.
pub fn precompile_portable(wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    precompile_for(TARGET, wasm)
}

/// Compiles a component for another target, in a build with wasmtime's feature `all-arch`.
///
/// # Errors
///
/// The component is not valid, or the target is not supported.
pub fn precompile_for(target: &str, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    Engine::new(&configure_engine(target, true)?)?.precompile_component(wasm)
}

/// Calls to watch. The thread has only weak references to the engines, so that it ends with them.
#[derive(Default)]
struct Ticker {
    calls: Mutex<Vec<Weak<CallBudget>>>,
    wake: Condvar,
}

impl Ticker {
    fn watch(&self, call: &Arc<CallBudget>) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(Arc::downgrade(call));
        if calls.len() == 1 {
            self.wake.notify_one();
        }
    }

    fn run(&self, engines: &[EngineWeak]) {
        let mut idle = 0;
        loop {
            std::thread::sleep(Duration::from_millis(EPOCH_TICK_MS));
            let Some(engines) = engines.iter().map(EngineWeak::upgrade).collect::<Option<Vec<_>>>() else {
                return;
            };
            engines.iter().for_each(Engine::increment_epoch);
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.retain(|call| call.upgrade().is_some_and(|call| call.tick()));
            idle = if calls.is_empty() { idle + 1 } else { 0 };
            if idle >= TICKS_UNTIL_REST {
                // The engines must not be kept alive while the thread sleeps.
                drop(engines);
                let rest = self.wake.wait_while(calls, |calls| calls.is_empty());
                drop(rest.unwrap_or_else(PoisonError::into_inner));
                idle = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn the_baseline_is_read_from_the_processor() {
        let text = std::fs::read_to_string("/proc/cpuinfo").expect("Linux has it");
        let line = text
            .lines()
            .find(|line| line.starts_with("flags"))
            .expect("x86 has flags");
        let flags: Vec<&str> = line.split_whitespace().collect();
        let needed = ["pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16"];
        assert_eq!(baseline_available(), needed.iter().all(|flag| flags.contains(flag)));
    }

    #[test]
    fn the_ticker_rests_while_no_call_runs() {
        let engine = Engine::new(&configure_engine(TARGET, true).expect("it is valid")).expect("the engine starts");
        let ticker = Arc::new(Ticker {
            calls: Mutex::default(),
            wake: Condvar::new(),
        });
        let (own, engines) = (Arc::clone(&ticker), [engine.weak()]);
        let thread = std::thread::spawn(move || own.run(&engines));
        // It rests once the engine can be dropped for good: nothing else holds it then.
        std::thread::sleep(Duration::from_millis(EPOCH_TICK_MS) * (TICKS_UNTIL_REST + 50));
        drop(engine);
        std::thread::sleep(Duration::from_millis(EPOCH_TICK_MS) * 50);
        assert!(!thread.is_finished(), "a resting ticker does not look at the engine");
    }
}
