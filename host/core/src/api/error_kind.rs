//! The closed set of errors: each kind with its stable code, its HTTP status and its exit code.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Exit code of an operation that failed, was denied or is incomplete.
pub const FAILED: u8 = 1;
/// Exit code of a configuration or usage error.
pub const USAGE: u8 = 2;
/// Exit code of a daemon that does not run or cannot be started.
pub const BACKEND: u8 = 3;

/// Declares the kinds and the functions of them from one row each: the code, the HTTP status, the exit code.
macro_rules! error_kinds {
    ($($(#[$doc:meta])+ $kind:ident = ($code:literal, $status:literal, $exit:expr),)+) => {
        /// Kind of an error. Programs decide by it, through its [code](Self::code).
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ErrorKind {
            $($(#[$doc])+ $kind,)+
            /// A code of a newer version, read from its daemon or its journal. This version never creates one.
            Foreign(ForeignCode),
        }

        impl ErrorKind {
            /// The kind with this code.
            pub fn from_code(code: &str) -> Self {
                match code {
                    $($code => Self::$kind,)+
                    code => Self::Foreign(ForeignCode(code.to_owned())),
                }
            }

            /// The stable name for programs, in kebab case.
            pub fn code(&self) -> &str {
                match self {
                    $(Self::$kind => $code,)+
                    Self::Foreign(ForeignCode(code)) => code,
                }
            }

            /// The status of an HTTP answer with this error. Kinds that occur only in commands and events have that of
            /// a request that cannot be served.
            pub fn http_status(&self) -> u16 {
                match self {
                    $(Self::$kind => $status,)+
                    Self::Foreign(_) => 500,
                }
            }

            /// The exit code of a command that ends with this error.
            pub fn exit_code(&self) -> u8 {
                match self {
                    $(Self::$kind => $exit,)+
                    Self::Foreign(_) => FAILED,
                }
            }

            #[cfg(test)]
            fn known() -> Vec<Self> {
                vec![$(Self::$kind),+]
            }
        }
    };
}

/// The text of a code that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignCode(String);

error_kinds! {
    // Requests.
    /// The request makes no sense: a field is missing, or two contradict each other.
    InvalidRequest = ("invalid-request", 400, USAGE),
    /// The policy names an unknown effect, or contradicts itself.
    InvalidPolicy = ("invalid-policy", 400, USAGE),
    /// The operation cannot work on the target: a directory where it needs a source file.
    InvalidTarget = ("invalid-target", 400, USAGE),
    /// The directory is no repository, or cannot be opened.
    InvalidRepository = ("invalid-repository", 404, FAILED),
    /// The directory is one that no session works in.
    RefusedRepository = ("refused-repository", 403, USAGE),
    /// The repository has no files, or all of them are ignored.
    EmptyRepository = ("empty-repository", 404, FAILED),
    /// The target does not exist.
    FileNotFound = ("file-not-found", 404, USAGE),
    /// The target exists, and the rules for names forbid to read it.
    FileNotAccessible = ("file-not-accessible", 403, FAILED),
    /// No session, skill, approval or route has this name, or a skill does not find a file.
    NotFound = ("not-found", 404, FAILED),
    /// The request expects another provider than the enabled one.
    ProviderMismatch = ("provider-mismatch", 409, USAGE),
    /// A conversation would go to another provider than before, and the user has not said so.
    ProviderUnconfirmed = ("provider-unconfirmed", 409, USAGE),
    /// The conversation cannot go on: a part of it is missing, or it is too long.
    NotContinued = ("not-continued", 409, FAILED),
    /// The body is over its limit.
    BodyTooLarge = ("body-too-large", 413, FAILED),
    /// The body is not declared as JSON.
    UnsupportedMediaType = ("unsupported-media-type", 415, FAILED),
    /// The route does not take this method.
    MethodNotAllowed = ("method-not-allowed", 405, FAILED),
    /// The head of the request is over its limit.
    HeadTooLarge = ("head-too-large", 431, FAILED),
    /// The bytes of the connection are no HTTP.
    NotHttp = ("not-http", 400, FAILED),
    /// The head of the request did not arrive in time.
    HeadTooSlow = ("head-too-slow", 408, FAILED),
    /// The client reads the answer too slowly.
    ReaderTooSlow = ("reader-too-slow", 400, FAILED),
    // Access.
    /// The token is missing or wrong.
    Unauthorized = ("unauthorized", 401, FAILED),
    /// The caller may not do this.
    Forbidden = ("forbidden", 403, FAILED),
    /// The Host header names no host that is served.
    HostNotAllowed = ("host-not-allowed", 403, FAILED),
    /// The Origin header is not on the allowlist.
    OriginNotAllowed = ("origin-not-allowed", 403, FAILED),
    /// The connection was closed before the request was accepted.
    ConnectionClosed = ("connection-closed", 400, FAILED),
    /// An MCP client does not list its roots.
    RootsUnknown = ("roots-unknown", 400, FAILED),
    /// The repository lies outside of an MCP client's roots.
    OutsideRoots = ("outside-roots", 400, FAILED),
    // Daemon.
    /// As much is under way as is allowed at the same time.
    Busy = ("busy", 503, FAILED),
    /// The daemon is about to end and takes nothing new.
    Stopping = ("stopping", 503, FAILED),
    /// The daemon has a bug; its log has the details.
    Internal = ("internal", 500, FAILED),
    /// The journal of a session cannot be written or read.
    JournalFailed = ("journal-failed", 503, FAILED),
    /// The daemon does not run, or does not answer.
    BackendDown = ("backend-down", 400, BACKEND),
    /// Another daemon holds the lock of this home folder.
    AlreadyRunning = ("already-running", 400, FAILED),
    /// The daemon cannot start.
    StartFailed = ("start-failed", 400, BACKEND),
    /// The daemon cannot be stopped.
    StopFailed = ("stop-failed", 400, BACKEND),
    /// Another process listens on the port.
    PortInUse = ("port-in-use", 400, BACKEND),
    /// Another user answers where the daemon should.
    Stranger = ("stranger", 400, BACKEND),
    /// The running daemon has another version and cannot be replaced now.
    OtherVersion = ("other-version", 400, FAILED),
    /// The home folder belongs to another user.
    ForeignHome = ("foreign-home", 400, BACKEND),
    /// Other users can write to the home folder.
    OpenHome = ("open-home", 400, BACKEND),
    /// Other machines may reach the daemon.
    Exposed = ("exposed", 400, FAILED),
    // Configuration.
    /// The configuration file does not exist.
    ConfigMissing = ("config-missing", 503, USAGE),
    /// The configuration has a wrong value.
    ConfigInvalid = ("config-invalid", 503, USAGE),
    /// Other users can read keys in the configuration file.
    ConfigExposed = ("config-exposed", 503, USAGE),
    /// The enabled provider has no API key.
    ConfigKeyMissing = ("config-key-missing", 503, USAGE),
    /// The enabled provider has no model.
    ConfigModelMissing = ("config-model-missing", 503, USAGE),
    /// The cost is bounded, and the price of the model is not known.
    ConfigPriceMissing = ("config-price-missing", 503, USAGE),
    /// The operation needs a model, and only the embedded analyst is enabled.
    ConfigNeedsModel = ("config-needs-model", 503, USAGE),
    /// The repository's own file, `.tool.toml`, has a wrong value.
    ConfigRepository = ("config-repository", 503, USAGE),
    /// The lock file of skills is missing, or cannot be understood.
    ConfigLock = ("config-lock", 503, USAGE),
    /// The skills differ from their lock file.
    ConfigDrift = ("config-drift", 503, USAGE),
    /// The script of the scripted model server is wrong.
    ConfigScript = ("config-script", 503, USAGE),
    /// The notes vault does not exist.
    VaultMissing = ("vault-missing", 400, FAILED),
    /// This machine does not allow the sandbox that the policy requires.
    SandboxUnavailable = ("sandbox-unavailable", 400, FAILED),
    // Sessions.
    /// The user, or the end of the user's terminal, ended it.
    Cancelled = ("cancelled", 400, FAILED),
    /// The daemon ended while the session ran.
    Interrupted = ("interrupted", 400, FAILED),
    /// The session has ended already.
    SessionEnded = ("session-ended", 409, FAILED),
    /// The session is still running.
    SessionRunning = ("session-running", 409, FAILED),
    /// The operation failed, and no other kind says it better.
    OperationFailed = ("operation-failed", 400, FAILED),
    /// The scan of the repository took too long.
    ScanTimeout = ("scan-timeout", 504, FAILED),
    /// The repository cannot be read.
    ScanFailed = ("scan-failed", 403, FAILED),
    /// A bound of the session is reached.
    BudgetExhausted = ("budget-exhausted", 400, FAILED),
    /// The model declined to answer, or to go on.
    ModelRefused = ("model-refused", 400, FAILED),
    /// An approval was not answered in time.
    ApprovalExpired = ("approval-expired", 400, FAILED),
    /// A change could not be made.
    ChangeFailed = ("change-failed", 400, FAILED),
    /// The model wrote no file.
    NothingWritten = ("nothing-written", 400, FAILED),
    /// The new tests do not pass.
    TestsFailing = ("tests-failing", 400, FAILED),
    /// The tests were not run.
    TestsNotRun = ("tests-not-run", 400, FAILED),
    /// Nothing shows that a change is right: there were tests, and they did not run, or not all of them.
    NotVerified = ("not-verified", 400, FAILED),
    /// The tests are worse than before.
    TestsWorse = ("tests-worse", 400, FAILED),
    /// A check that was clean before fails now.
    ChecksWorse = ("checks-worse", 400, FAILED),
    /// No session has changed files that are not undone.
    NothingChanged = ("nothing-changed", 404, FAILED),
    /// The session has nothing that can be undone.
    NothingToUndo = ("nothing-to-undo", 409, FAILED),
    /// An undo failed.
    UndoFailed = ("undo-failed", 409, FAILED),
    /// An undo left some files as they are.
    UndoIncomplete = ("undo-incomplete", 400, FAILED),
    /// The session proposes nothing that could be applied.
    NothingToApply = ("nothing-to-apply", 409, FAILED),
    /// Files have changed since a preview proposed changes of them.
    PreviewOutdated = ("preview-outdated", 409, FAILED),
    /// The preview did not end complete, and the user has not said that a part will do.
    PreviewIncomplete = ("preview-incomplete", 409, FAILED),
    /// The folder of reports cannot be written.
    ReportDenied = ("report-denied", 400, FAILED),
    /// The report could not be written.
    ReportFailed = ("report-failed", 400, FAILED),
    // Providers.
    /// The provider refused the key.
    AuthenticationFailed = ("authentication-failed", 400, FAILED),
    /// Credits or quota are used up.
    ProviderCredits = ("provider-credits", 400, FAILED),
    /// The provider got too many requests, also after waiting.
    RateLimited = ("rate-limited", 400, FAILED),
    /// The conversation is longer than the model's context.
    ContextLengthExceeded = ("context-length-exceeded", 400, FAILED),
    /// The provider has no such model.
    ModelNotFound = ("model-not-found", 400, FAILED),
    /// No server listens at the address.
    ConnectionRefused = ("connection-refused", 400, FAILED),
    /// The host cannot be reached.
    ProviderUnreachable = ("provider-unreachable", 400, FAILED),
    /// The server on this machine belongs to another user.
    ProviderOtherUser = ("provider-other-user", 400, FAILED),
    /// The server that answers is no model server.
    NotAModelServer = ("not-a-model-server", 400, FAILED),
    /// The model or server cannot call tools.
    ToolsUnsupported = ("tools-unsupported", 400, FAILED),
    /// The answer stopped coming.
    ProviderTimeout = ("provider-timeout", 400, FAILED),
    /// The answer broke off, or was no answer.
    ProviderStream = ("provider-stream", 400, FAILED),
    /// The model said nothing.
    ProviderEmptyAnswer = ("provider-empty-answer", 400, FAILED),
    /// The provider is out of order.
    ProviderUnavailable = ("provider-unavailable", 400, FAILED),
    /// The provider refuses the request.
    ProviderRejected = ("provider-rejected", 400, FAILED),
    /// The settings make no request possible.
    InvalidProvider = ("invalid-provider", 400, FAILED),
    // Calls of skills.
    /// No skill has this name.
    UnknownSkill = ("unknown", 400, FAILED),
    /// The arguments do not fit the schema of the skill.
    InvalidArguments = ("invalid-arguments", 400, USAGE),
    /// The policy, the rules for names, or the user does not allow it.
    Denied = ("denied", 400, FAILED),
    /// The skill could not do its work.
    Failed = ("failed", 400, FAILED),
    /// A program or service that the skill needs is missing.
    Unavailable = ("unavailable", 400, FAILED),
    /// The work is over a limit that the skill or the host sets.
    Limit = ("limit", 400, FAILED),
    /// The call ran out of time.
    Timeout = ("timeout", 400, FAILED),
    /// The call needs too much memory.
    Memory = ("memory", 400, FAILED),
    /// The answer is too large, or the output of a command cannot be written.
    Output = ("output", 400, FAILED),
    /// The call read too many bytes.
    ReadLimit = ("read", 400, FAILED),
    /// The call proposed too much.
    StageLimit = ("stage", 400, FAILED),
    /// The call walked too many directory entries.
    EntriesLimit = ("entries", 400, FAILED),
    /// The call holds too many handles.
    HandlesLimit = ("handles", 400, FAILED),
    /// The component has too many instances, memories or tables.
    InstancesLimit = ("instances", 400, FAILED),
    /// The component has too many table elements.
    TablesLimit = ("tables", 400, FAILED),
    /// The call asked for too many random bytes.
    RandomLimit = ("random", 400, FAILED),
    /// Checking the arguments would take too long.
    ArgumentsLimit = ("arguments", 400, FAILED),
    /// The component ended with a trap.
    Trap = ("trap", 400, FAILED),
    /// The skill is not ready to be called.
    NotReady = ("not-ready", 400, FAILED),
    // Commands.
    /// The command line makes no sense.
    Usage = ("usage", 400, USAGE),
    /// A file of the user cannot be read or written.
    File = ("file", 400, FAILED),
    /// The command itself cannot run: no signal handler, thread or terminal.
    Runtime = ("runtime", 400, FAILED),
    /// The home folder cannot be used.
    Home = ("home", 400, FAILED),
    /// The disk is full, or nearly so.
    Disk = ("disk", 400, FAILED),
    /// No temporary folder can be made.
    TemporaryFolder = ("temporary-folder", 400, FAILED),
    /// Nothing matches.
    NothingFound = ("nothing-found", 400, FAILED),
    /// The user declined.
    Declined = ("declined", 400, FAILED),
    /// A skill does not build.
    Build = ("build", 400, FAILED),
    /// A skill cannot be used as asked.
    Skill = ("skill", 400, FAILED),
    /// A signature is missing or wrong.
    Signature = ("signature", 400, FAILED),
    /// The connection to another agent failed.
    Mcp = ("mcp", 400, FAILED),
}

impl std::fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.code())
    }
}

impl Serialize for ErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for ErrorKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_code(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_is_found_by_its_code() {
        let kinds = ErrorKind::known();
        let found: Vec<ErrorKind> = kinds.iter().map(|kind| ErrorKind::from_code(kind.code())).collect();
        assert_eq!(found, kinds);
        let codes: BTreeSet<&str> = kinds.iter().map(ErrorKind::code).collect();
        assert_eq!(codes.len(), kinds.len());
        let is_kebab = |code: &&&str| {
            code.split('-')
                .all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase()))
        };
        assert_eq!(codes.iter().find(|code| !is_kebab(code)), None);
    }

    #[test]
    fn the_code_of_a_newer_daemon_is_kept_and_means_failed() {
        let kind: ErrorKind = serde_json::from_str("\"quota-of-tomorrow\"").expect("it is a code");
        assert_eq!(
            serde_json::to_string(&kind).expect("it is a text"),
            "\"quota-of-tomorrow\""
        );
        assert_eq!((kind.code(), kind.exit_code()), ("quota-of-tomorrow", FAILED));
    }
}
