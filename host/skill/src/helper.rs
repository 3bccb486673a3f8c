//! The work that helpers do: what parses hostile input, away from the daemon that holds the keys.
//!
//! Only the entry is here. `tool_sandbox::confine` confines a helper; the code that asks for the work does it, too.

use std::process::ExitCode;

use super::{compile, imports};
use crate::task::Task;
use tool_sandbox::confine;

/// The helper mode of this binary: reads its task from standard input and never returns to the command line.
pub fn run() -> ExitCode {
    confine::serve(|mut door| {
        if let Task::Git(task) = &door.task {
            imports::prepare_git(task, &mut door.walls);
        }
        let (connection, task) = door.close()?;
        match task {
            Task::Git(task) => imports::serve_git(connection, &task),
            Task::Compile => compile::serve(connection),
        }
        Ok(())
    })
}
