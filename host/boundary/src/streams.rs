//! Sources and targets of the streams that a guest holds: `guard` opens them, `wasi` reads and writes them.

use std::sync::Arc;

use crate::exchange::HttpExchange;
use crate::files::RepositoryFile;
use crate::staging::StageFile;

pub(crate) enum Input {
    /// Nowhere: at its end from the start.
    Empty,
    /// A file of the repository, from a position on.
    Repository { file: RepositoryFile, offset: u64 },
    /// A file of the stage, from a position on.
    Stage { file: StageFile, offset: u64 },
    /// The body of a response, from a position on.
    Body { bytes: Vec<u8>, offset: usize },
}

pub(crate) enum GuestOutput {
    /// To the bounded log; `keep` also keeps the end for the words of a crash.
    Log { keep: bool },
    /// To a file of the stage, from a position on.
    Stage { file: StageFile, offset: u64 },
    /// To the end of a file of the stage.
    Append { file: StageFile },
    /// To the body of a request.
    Body { exchange: Arc<HttpExchange> },
}
