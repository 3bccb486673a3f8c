//! Compiles a component that is not ours, in a helper process with nothing but the component's bytes and with limits
//! for time and memory.
//!
//! The result is native code from a process that parsed hostile bytes. Loading it needs the same trust as compiling
//! in this process would: whatever the component could make the compiler do there, it could do here as well. Without
//! helpers, a thread of this process compiles; then the time limit only ends the waiting, and memory is not limited.
//! One compilation runs at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::helper_task::HelperTask;
use crate::limits;
use tool_boundary::{Compiler, Runtime};
use tool_sandbox::helper_process::{self, Helper, HelperConnection, HelperDeadline, HelperError, HelperRights};

/// Limits of a compilation.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompileBounds {
    pub(super) time: Duration,
    /// Memory for all threads, in bytes.
    pub(super) memory_bytes: u64,
}

/// A helper's answer; the code follows it as bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CompileOutcome {
    Compiled,
    Invalid(String),
}

/// True while a compilation runs, including one on a thread that no call waits for any more.
static COMPILING: AtomicBool = AtomicBool::new(false);

/// Permit for the one compilation at a time. Drop returns it.
struct CompilePermit;

impl CompilePermit {
    fn take(until: &HelperDeadline) -> Result<Self, String> {
        while COMPILING.swap(true, Ordering::AcqRel) {
            if until.cancel.is_cancelled() {
                return Err(cancelled_text());
            }
            if Instant::now() >= until.deadline {
                return Err("another skill is still being compiled".to_owned());
            }
            std::thread::sleep(Duration::from_millis(limits::CONFINE_TICK_MS));
        }
        Ok(Self)
    }
}

impl Drop for CompilePermit {
    fn drop(&mut self) {
        COMPILING.store(false, Ordering::Release);
    }
}

/// Compiles a component to native code.
pub(super) fn compile_component(
    runtime: &Runtime,
    wasm: Arc<[u8]>,
    bounds: CompileBounds,
    cancel: &CancellationToken,
) -> Result<Vec<u8>, String> {
    let turn = CompilePermit::take(&HelperDeadline::within(bounds.time, cancel))?;
    let until = HelperDeadline::within(bounds.time, cancel);
    let explain = |error| explain_error(error, bounds);
    if helper_process::has_helper().is_err() {
        let compiler = runtime.compiler();
        let work = move |connection| {
            let _turn = turn;
            answer_task(connection, &compiler, &wasm);
        };
        let mut helper = Helper::on_thread(work).map_err(explain)?;
        return compiled_code(helper.hear(code_bytes_max(), &until).map_err(explain)?);
    }
    let mut helper = Helper::start(&compiler_walls(bounds), &HelperTask::Compile, &until).map_err(explain)?;
    let answer = helper.ask(&(), &wasm, code_bytes_max(), &until);
    compiled_code(answer.map_err(explain)?)
}

fn compiled_code((outcome, code): (CompileOutcome, Vec<u8>)) -> Result<Vec<u8>, String> {
    match outcome {
        CompileOutcome::Compiled => Ok(code),
        CompileOutcome::Invalid(reason) => {
            Err(format!("it does not compile: {}", tool_core::text::clean_text(&reason)))
        }
    }
}

fn code_bytes_max() -> usize {
    usize::try_from(limits::COMPILED_BYTES_MAX).unwrap_or(usize::MAX)
}

fn compiler_walls(bounds: CompileBounds) -> HelperRights {
    let system_bytes = helper_process::machine_memory_bytes();
    let memory_bytes = bounds.memory_bytes.min(system_bytes / 2);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    HelperRights {
        memory_bytes,
        // Address space for the program itself, and for what allocators reserve per thread without using it.
        address_bytes: memory_bytes.saturating_mul(2) + processors * 256 * 1024 * 1024,
        cpu_seconds: bounds.time.as_secs().max(1) * processors,
        ..HelperRights::default()
    }
}

fn explain_error(error: HelperError, bounds: CompileBounds) -> String {
    match error {
        HelperError::Cancelled => cancelled_text(),
        HelperError::TooLate => format!("compiling it took longer than {} s", bounds.time.as_secs()),
        HelperError::Bound(what) => format!("compiling it took more {what} than it may"),
        other => format!("it could not be compiled: {}", error_chain(&other)),
    }
}

/// Formats an error with its causes.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", error_chain(source)),
        None => error.to_string(),
    }
}

fn cancelled_text() -> String {
    "it was being compiled when the call was cancelled".to_owned()
}

/// Runs in the helper: receives the bytes of a component and answers with its code.
pub(super) fn serve_compiler(mut connection: HelperConnection) {
    let Ok(Some(((), wasm))) = connection.receive() else {
        return;
    };
    match Compiler::new() {
        Ok(compiler) => answer_task(connection, &compiler, &wasm),
        // If the socket is closed, the error is lost.
        Err(error) => drop(connection.send(&CompileOutcome::Invalid(format!("{error:#}")), &[])),
    }
}

fn answer_task(mut connection: HelperConnection, compiler: &Compiler, wasm: &[u8]) {
    let (outcome, code) = match compiler.compile(wasm) {
        Ok(code) => (CompileOutcome::Compiled, code),
        Err(error) => (CompileOutcome::Invalid(format!("{error:#}")), Vec::new()),
    };
    // The receiver may have stopped waiting.
    let _ = connection.send(&outcome, &code);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(wasm: &[u8], time: Duration, cancel: &CancellationToken) -> Result<Vec<u8>, String> {
        let runtime = Runtime::global().expect("the engine starts");
        let memory_bytes = tool_boundary::Limits::DEFAULT.compile_memory_bytes;
        compile_component(runtime, wasm.into(), CompileBounds { time, memory_bytes }, cancel)
    }

    #[test]
    fn what_is_compiled_loads_and_what_is_broken_says_so() {
        let (time, cancel) = (Duration::from_secs(60), CancellationToken::new());
        let code = compiled(b"\0asm\x0d\0\x01\0", time, &cancel).expect("an empty component compiles");
        let runtime = Runtime::global().expect("the engine starts");
        runtime.load(&code).expect("it was made for this engine");
        let broken = compiled(b"\0asm\x0d\0\x01\0\x63", time, &cancel).expect_err("it is cut short");
        assert!(broken.starts_with("it does not compile: "), "{broken}");
        cancel.cancel();
        let late = compiled(b"\0asm\x0d\0\x01\0", time, &cancel).expect_err("nobody waits");
        assert_eq!(late, cancelled_text());
    }
}
