//! The engine of the process, in two forms, and the thread that ticks their epochs.
//!
//! Both forms run the same code under the same limits and differ in where memory comes from: a pool, which makes no
//! system calls between two calls of a skill, or the system, which takes components of every shape. There are a few
//! pools, so that not all processors take turns at one.
//!
//! One configuration compiles the built-in components ahead of time and loads them later, on any x86-64 machine, so
//! nothing here depends on the processor beyond a named baseline. The ticker also ends calls whose deadline has passed
//! while they wait inside the host; it rests while no call runs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use wasmtime::component::Component;
use wasmtime::{Config, Enabled, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::budget::CallBudget;
use super::code::CodeFile;
use crate::limits;

/// Features that the compiler may assume of every x86-64 processor: the level x86-64-v2, which all processors have had
/// since 2009 and which vector instructions of WebAssembly map onto well.
const X86_64_BASELINE: [&str; 6] = [
    "has_sse3",
    "has_ssse3",
    "has_sse41",
    "has_sse42",
    "has_popcnt",
    "has_cmpxchg16b",
];

/// Ticks without any call after which the ticker rests.
const TICKS_UNTIL_REST: u32 = 100;

/// Linear memories of a component that the pool takes, and their tables: what compilers of languages emit.
const POOL_MEMORIES_PER_COMPONENT: u32 = 2;
const POOL_TABLES_PER_COMPONENT: u32 = 8;

/// Components at work at once that a pool has room for: calls, those whose user is asked, those for which a program runs
/// or is to run, what describes itself, and what reads symbols.
const POOL_COMPONENTS: u32 = 48;

/// Room of a pool for all of them.
const POOL_MEMORIES: u32 = POOL_COMPONENTS * POOL_MEMORIES_PER_COMPONENT;
const POOL_TABLES: u32 = POOL_COMPONENTS * POOL_TABLES_PER_COMPONENT;

/// Pools at most. Each takes three eighths of a tebibyte of the address space, of which there are 128.
const POOLS_MAX: usize = 4;

/// Bytes at the beginning of a memory, or of a table, that stay with the pool and are cleared instead of given back:
/// what a small skill touches. Giving pages back interrupts every processor that runs a thread of this process.
const POOL_KEEPS_BYTES: usize = 512 * 1024;

/// This machine cannot run compiled code.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the WebAssembly engine does not start: {reason}")]
pub struct EngineError {
    /// The reason that wasmtime gives.
    reason: String,
}

/// A component as native code, ready to be linked.
pub struct NativeComponent {
    pub(crate) component: Component,
    /// The file that it is mapped from; none where it has memory of its own.
    code: Option<CodeFile>,
}

/// An engine that only compiles.
pub struct Compiler(Engine);

impl Compiler {
    /// A compiler with what [`Runtime`] would load: for a helper, which runs nothing.
    pub fn new() -> wasmtime::Result<Self> {
        Ok(Self(Engine::new(&config(TARGET, baseline_available())?)?))
    }

    /// Compiles a component to native code.
    pub fn compile(&self, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
        self.0.precompile_component(wasm)
    }
}

/// The engine with its ticker.
pub struct Runtime {
    /// Takes memory from the system. Compiles, and runs what does not fit into the pool.
    pub(crate) engine: Engine,
    /// Take memory from a pool each. None where the address space for one is not to be had.
    pools: Vec<Engine>,
    ticker: Arc<Ticker>,
}

impl Runtime {
    /// The process's own. Made on first use; fails where the machine cannot run compiled code.
    pub fn global() -> Result<&'static Self, EngineError> {
        static RUNTIME: LazyLock<Result<Runtime, String>> =
            LazyLock::new(|| Runtime::new().map_err(|error| format!("{error:#}")));
        RUNTIME
            .as_ref()
            .map_err(|reason| EngineError { reason: reason.clone() })
    }

    fn new() -> wasmtime::Result<Self> {
        let engine = Engine::new(&config(TARGET, baseline_available())?)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let pools = (0..processors.min(POOLS_MAX)).map(|_| {
            Engine::new(config(TARGET, baseline_available())?.allocation_strategy(pool())).inspect_err(|error| {
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

    /// Loads compiled code into the engine of the first pool, or into the one without where it does not fit there.
    pub fn load(&self, code: &[u8]) -> wasmtime::Result<NativeComponent> {
        if let Some(file) = CodeFile::new(code)
            && let Ok(component) = self.load_where_it_fits(|engine| map(engine, &file))
        {
            let code = Some(file);
            return Ok(NativeComponent { component, code });
        }
        let component = self.load_where_it_fits(|engine| deserialize(engine, code))?;
        Ok(NativeComponent { component, code: None })
    }

    fn load_where_it_fits(&self, load: impl Fn(&Engine) -> wasmtime::Result<Component>) -> wasmtime::Result<Component> {
        match self.pools.first().map(&load) {
            Some(Ok(component)) => Ok(component),
            _ => load(&self.engine),
        }
    }

    /// A compiler of code that this runtime loads.
    pub fn compiler(&self) -> Compiler {
        Compiler(self.engine.clone())
    }

    /// Names the compiler and its configuration.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.engine)
    }

    /// Pools beside `engine`, if it is the first; otherwise 0.
    pub(crate) fn pools_beside(&self, engine: &Engine) -> usize {
        match self.pools.as_slice() {
            [first, others @ ..] if Engine::same(first, engine) => others.len(),
            _ => 0,
        }
    }

    /// Index of the pool for this thread's processor; the thread may be on another one at once.
    pub(crate) fn pool_here(&self) -> usize {
        match self.pools.len() {
            0 | 1 => 0,
            pools => processor() % pools,
        }
    }

    /// Copies a component into another pool.
    pub(crate) fn copy(&self, native: &NativeComponent, pool: usize) -> wasmtime::Result<Component> {
        match &native.code {
            Some(file) => map(&self.pools[pool], file),
            None => deserialize(&self.pools[pool], &native.component.serialize()?),
        }
    }

    /// Watches a call until it is dropped: its token is cancelled when its time is up.
    pub(crate) fn watch(&self, call: &Arc<CallBudget>) {
        self.ticker.watch(call);
    }
}

#[cfg(target_os = "linux")]
fn processor() -> usize {
    rustix::thread::sched_getcpu()
}

/// Elsewhere the system names no processor, and has no map of pages that makes a pool save anything.
#[cfg(not(target_os = "linux"))]
fn processor() -> usize {
    0
}

/// The configuration for compiling and loading. `baseline` is false only on a processor that lacks it: precompiled code
/// does not load there, and components are compiled on the machine.
fn config(target: &str, baseline: bool) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    // Threads and garbage collection are not even built in: see the features in `Cargo.toml`.
    config
        .epoch_interruption(true)
        .wasm_component_model(true)
        .concurrency_support(false)
        .memory_init_cow(true)
        // A named target switches off what the compiler would infer from the processor at hand.
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

/// Allocates memory ahead of time: room for as many components as are ever at work, and address space of 4 GiB for each
/// of their memories, because compiled code relies on it.
fn pool() -> InstanceAllocationStrategy {
    let mut pool = PoolingAllocationConfig::default();
    pool.max_memories_per_component(POOL_MEMORIES_PER_COMPONENT)
        .max_memories_per_module(POOL_MEMORIES_PER_COMPONENT)
        .total_memories(POOL_MEMORIES)
        .max_tables_per_component(POOL_TABLES_PER_COMPONENT)
        .max_tables_per_module(POOL_TABLES_PER_COMPONENT)
        .total_tables(POOL_TABLES)
        .table_elements(usize::try_from(limits::CALL_TABLE_ELEMENTS_MAX).unwrap_or(usize::MAX))
        .linear_memory_keep_resident(POOL_KEEPS_BYTES)
        .table_keep_resident(POOL_KEEPS_BYTES)
        .pagemap_scan(Enabled::Auto)
        // Guests run on the stacks of the threads that call them.
        .total_stacks(0);
    InstanceAllocationStrategy::Pooling(pool)
}

/// The target of compiled code: this build's own. Code for one C library loads with the other, but the engine's target must
/// be that of the program.
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

/// Names the compiler and its configuration.
fn fingerprint(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Loads compiled code from a file without a name. Together with [`deserialize`] the one place where bytes become native code.
fn map(engine: &Engine, code: &CodeFile) -> wasmtime::Result<Component> {
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
fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    #[expect(
        unsafe_code,
        reason = "loading compiled code means trusting it; where it comes from is checked above"
    )]
    // SAFETY: `code` was made by wasmtime. It is either embedded in this program by its own build, or it came over a
    // socket from a helper that this process started for it, or it was read from a file that only this user can write
    // and whose digest is the one that we wrote in front of it, or it is a copy of what was loaded from there. wasmtime checks that its own version, configuration and
    // the processor's features fit.
    unsafe {
        Component::deserialize(engine, code)
    }
}

/// Compiles a component for every machine that has the baseline. For the build of the product.
pub fn precompile(wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    precompile_for(TARGET, wasm)
}

/// Compiles a component for a target that need not be this one, in a build with wasmtime's feature `all-arch`.
pub fn precompile_for(target: &str, wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    Engine::new(&config(target, true)?)?.precompile_component(wasm)
}

/// The calls at work. The thread holds the engines weakly, so that it ends with them.
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
            std::thread::sleep(Duration::from_millis(limits::EPOCH_TICK_MS));
            let Some(engines) = engines.iter().map(EngineWeak::upgrade).collect::<Option<Vec<_>>>() else {
                return;
            };
            engines.iter().for_each(Engine::increment_epoch);
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.retain(|call| call.upgrade().is_some_and(|call| call.tick()));
            idle = if calls.is_empty() { idle + 1 } else { 0 };
            if idle >= TICKS_UNTIL_REST {
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
        let engine = Engine::new(&config(TARGET, true).expect("it is valid")).expect("the engine starts");
        let ticker = Arc::new(Ticker {
            calls: Mutex::default(),
            wake: Condvar::new(),
        });
        let (own, engines) = (Arc::clone(&ticker), [engine.weak()]);
        let thread = std::thread::spawn(move || own.run(&engines));
        // It rests once the engine can be dropped for good: nothing else holds it then.
        std::thread::sleep(Duration::from_millis(limits::EPOCH_TICK_MS) * (TICKS_UNTIL_REST + 50));
        drop(engine);
        std::thread::sleep(Duration::from_millis(limits::EPOCH_TICK_MS) * 50);
        assert!(!thread.is_finished(), "a resting ticker does not look at the engine");
    }
}
