//! The work that helpers do: what parses hostile input, away from the daemon that holds the keys.
//!
//! Only the entry is here. How a helper is kept in is `process::confine`'s; what each does is beside the code that
//! asks for it.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::{compile, imports};
use tool_sandbox::confine;

/// Task of a helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Reading a git repository, and making the objects of a commit.
    Git(imports::GitTask),
    /// Compiling a component.
    Compile,
}

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
