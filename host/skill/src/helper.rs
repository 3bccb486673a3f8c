//! Entry of the helper processes, which parse hostile input away from the daemon with its keys.
//!
//! `tool_sandbox::confine` confines a helper. The modules that start a helper also hold its code.

use std::process::ExitCode;

use super::{compile, imports};
use crate::helper_task::HelperTask;
use tool_sandbox::helper_process;

/// Runs this binary as a helper: reads its task from standard input and exits.
pub fn run_helper() -> ExitCode {
    helper_process::serve_helper(|mut door| {
        if let HelperTask::Git(task) = &door.task {
            imports::prepare_git(task, &mut door.walls);
        }
        let (connection, task) = door.close()?;
        match task {
            HelperTask::Git(task) => imports::serve_git(connection, &task),
            HelperTask::Compile => compile::serve_compiler(connection),
        }
        Ok(())
    })
}
