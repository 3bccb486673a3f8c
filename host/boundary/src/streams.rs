//! Sources and targets of a guest's streams: `guard` opens them, `wasi` reads and writes them.

use std::sync::Arc;

use crate::exchange::HttpExchange;
use crate::files::RepositoryFile;
use crate::staging::StageFile;

pub(crate) enum Input {
    /// No source: at its end from the start.
    Empty,
    /// A file of the repository, from an offset on.
    Repository { file: RepositoryFile, offset: u64 },
    /// A file of the stage, from an offset on.
    Stage { file: StageFile, offset: u64 },
    /// The body of a response, from an offset on.
    Body { bytes: Vec<u8>, offset: usize },
}

pub(crate) enum GuestOutput {
    /// The bounded log; `keep` also keeps the end of the output for the message about a crash.
    Log { keep: bool },
    /// A file of the stage, from an offset on.
    Stage { file: StageFile, offset: u64 },
    /// The end of a file of the stage.
    Append { file: StageFile },
    /// The body of a request.
    Body { exchange: Arc<HttpExchange> },
}
