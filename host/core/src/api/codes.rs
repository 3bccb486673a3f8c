//! Codes of problems, as clients see them. Providers have their own beside these, in `provider`.

/// A request that makes no sense: a missing field, two that contradict each other.
pub const INVALID_REQUEST: &str = "invalid-request";
/// A target that is not there.
pub const FILE_NOT_FOUND: &str = "file-not-found";
/// A target that is there and that nobody may read through this service.
pub const FILE_NOT_ACCESSIBLE: &str = "file-not-accessible";
/// A target that an operation cannot work on: a directory where it needs a source file.
pub const INVALID_TARGET: &str = "invalid-target";
/// A directory that is refused as a repository, or that is none.
pub const INVALID_REPOSITORY: &str = "invalid-repository";
/// A repository without files, or all of them ignored.
pub const EMPTY_REPOSITORY: &str = "empty-repository";
/// A scan that took more than 60 seconds.
pub const SCAN_TIMEOUT: &str = "scan-timeout";
/// The repository cannot be read.
pub const SCAN_FAILED: &str = "scan-failed";
/// The operation failed, and no other code says it better.
pub const OPERATION_FAILED: &str = "operation-failed";
/// The user, or the end of the user's terminal, ended it.
pub const CANCELLED: &str = "cancelled";
