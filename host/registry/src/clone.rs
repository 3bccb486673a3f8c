//! Clones repositories with the user's git, without running anything from a repository.
//!
//! git runs three times in the sandbox of installations: it fetches, and reaches only the host of the URL; it lists
//! the tree, which is counted; and it checks the tree out. After the first and the last step the files are copied to
//! the disk, from git's own folder only those that hold data. The user's credential helper runs outside of the
//! sandbox.
//!
//! Before the checkout, an attributes file that takes precedence over those of the repository turns every filter off.
//! Hooks, templates, submodules and file system monitors are off as well. git may not ask the user.

mod copy;
mod credential;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use copy::CopyPlan;
use credential::HostCredential;
use tool_core::text::clean_line;
use tool_sandbox::environment::{CERTIFICATES, find_programs};
use tool_sandbox::program_sandbox::{
    self, Enclosure, Installation, LeftTrees, RunBounds, Sandbox, ToolAccess, WrittenFile,
};
use tool_sandbox::proxy::{ProxyRoute, RegistryHost};
use tool_sandbox::{CommandSpec, ProcessError, RunEnd, RunLimits, run_command, run_handing_back};

/// Time limit for a clone in seconds. A shallow clone of the largest public repositories takes some minutes.
const CLONE_SECONDS_MAX: u64 = 30 * 60;

/// Seconds without progress after which git aborts a transfer, by its own settings.
const STALLED_SECONDS: u64 = 60;

/// Limit for a tree in bytes, with each file in whole pages, and for the fetched objects. Both are in memory for a
/// moment, and the file system of the sandbox has this size as well.
const CLONE_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Limit for files and folders of a tree. Large public repositories have 100,000.
const CLONE_FILES_MAX: usize = 400_000;

/// Limit for the list of a tree's entries in bytes: more than the permitted number of entries takes.
const CLONE_LIST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Size of a memory page in bytes.
const PAGE_BYTES: u64 = 4096;

/// Limit for git's output in an error, in characters.
const QUOTED_CHARS_MAX: usize = 400;

const URL_BYTES_MAX: usize = 2048;

/// Attributes that turn programs and conversions off. `info/attributes` takes precedence over the files of a
/// repository.
const ATTRIBUTES: &str = "* -filter -ident -text -eol -working-tree-encoding\n";

/// Variables of the user that git needs to reach a server. Keys of models are not among them.
const USER_VARIABLES: [&str; 17] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "https_proxy",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Variables that git needs in the sandbox. Its home there is empty.
const SANDBOX_VARIABLES: [&str; 5] = ["PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// URL of a repository that may be cloned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CloneUrl {
    text: String,
    transport: CloneTransport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CloneTransport {
    Https,
    Ssh,
    /// HTTP without encryption, only to this machine.
    LoopbackHttp,
}

impl CloneTransport {
    /// Value of `GIT_ALLOW_PROTOCOL`, which git also applies to redirects.
    fn allowed(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Ssh => "ssh",
            Self::LoopbackHttp => "http",
        }
    }
}

/// Reason why a URL may not be cloned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloneUrlError {
    /// The transport is not supported, for example `file://`, `git://` or `ext::`.
    #[error("`{0}` has a transport that is not used: give https, ssh, or http on this machine")]
    Transport(String),
    /// HTTP without encryption to another machine.
    #[error("`{0}` is not encrypted: http is for servers on this machine")]
    Unencrypted(String),
    /// The URL has a password or token, which would appear in results and process lists.
    #[error("a URL holds a password: keep it in a credential helper of git")]
    Password,
    /// git or ssh could take the text for an option, or it is not a URL.
    #[error("`{0}` is no URL of a repository")]
    Malformed(String),
}

impl fmt::Display for CloneUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl CloneUrl {
    /// Parses a URL, or ssh's short form `user@host:path`. Returns `None` for a path.
    ///
    /// # Errors
    ///
    /// The URL may not be cloned.
    pub fn parse(text: &str) -> Option<Result<Self, CloneUrlError>> {
        if let Some((scheme, rest)) = text.split_once("://") {
            return Some(Self::of_scheme(text, scheme, rest));
        }
        let before_slash = text.split('/').next().unwrap_or_default();
        if text.contains("::") {
            return Some(Err(CloneUrlError::Transport(clean_line(text))));
        }
        before_slash
            .split_once(':')
            .map(|(authority, _)| Self::of_authority(text, authority, CloneTransport::Ssh))
    }

    fn of_scheme(text: &str, scheme: &str, rest: &str) -> Result<Self, CloneUrlError> {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let transport = match scheme.to_ascii_lowercase().as_str() {
            "https" => CloneTransport::Https,
            "ssh" => CloneTransport::Ssh,
            "http" if is_loopback(authority) => CloneTransport::LoopbackHttp,
            "http" => return Err(CloneUrlError::Unencrypted(clean_line(text))),
            _ => return Err(CloneUrlError::Transport(clean_line(text))),
        };
        Self::of_authority(text, authority, transport)
    }

    fn of_authority(text: &str, authority: &str, transport: CloneTransport) -> Result<Self, CloneUrlError> {
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        // The user name of ssh is an account. With https it is a name or a token, and a password follows `:`.
        if user.contains(':') || (!user.is_empty() && transport != CloneTransport::Ssh) {
            return Err(CloneUrlError::Password);
        }
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
        let is_option = |part: &str| part.starts_with('-');
        if text.len() > URL_BYTES_MAX
            || !text.chars().all(is_plain)
            || host.is_empty()
            || [user, host, text].into_iter().any(is_option)
        {
            return Err(CloneUrlError::Malformed(clean_line(text)));
        }
        Ok(Self {
            text: text.to_owned(),
            transport,
        })
    }
}

impl CloneUrl {
    /// git's configuration for a clone of this URL.
    fn configuration(&self, has_sha256: bool) -> String {
        let url = self.text.replace('\\', "\\\\").replace('"', "\\\"");
        let (version, format) = if has_sha256 {
            (1, "[extensions]\n\tobjectFormat = sha256\n")
        } else {
            (0, "")
        };
        format!(
            "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n{format}[remote \"origin\"]\n\
             \turl = \"{url}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
        )
    }
}

/// True for `localhost`, 127.0.0.0/8 and `[::1]`, with a port or without.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Reason why a repository was not cloned.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// There is no git in `PATH`.
    #[error("git is not installed")]
    NoGit,
    /// git could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The folder could not be prepared.
    #[error("`{}` could not be used", path.display())]
    Folder {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// git failed.
    #[error("git could not clone `{url}`: {said}")]
    Failed {
        /// URL of the repository.
        url: CloneUrl,
        /// End of git's output, in one line.
        said: String,
    },
    /// There is no sandbox, and git does not run without one.
    #[error("a clone needs the full sandbox, and this machine does not allow one: {why}")]
    NoSandbox {
        /// Reason why there is no sandbox.
        why: String,
    },
    /// ssh cannot leave the sandbox.
    #[error("`{url}` is reached by ssh, which has no way out of the sandbox that git runs in")]
    Ssh {
        /// URL of the repository.
        url: CloneUrl,
    },
    /// The tree or the fetched objects are too large.
    #[error("the repository is too large to be cloned: more than {files} files or {gibibytes} GiB")]
    TooLarge {
        /// Limit for files and folders.
        files: usize,
        /// Limit for the size in GiB.
        gibibytes: u64,
    },
    /// The clone was cancelled.
    #[error("the clone was cancelled")]
    Cancelled,
}

impl CloneError {
    fn too_large() -> Self {
        Self::TooLarge {
            files: CLONE_FILES_MAX,
            gibibytes: CLONE_BYTES_MAX / (1024 * 1024 * 1024),
        }
    }
}

/// Sandbox for git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneWalls {
    /// Full sandbox; without one the clone fails.
    Sandbox,
    /// The user's rights, settings and credentials, because the user allowed it.
    None,
}

/// Clones the newest commit of the default branch into `folder`, which must not exist. Blocks. `starter` is the
/// user's environment, and `state` the folder of this program, which a sandbox never shows.
///
/// # Errors
///
/// Git fails, there is no sandbox, or the repository is larger than 400,000 files or 2 GiB. Files that were already
/// written stay in `folder`.
pub fn clone_repository(
    url: &CloneUrl,
    folder: &Path,
    walls: CloneWalls,
    state: &Path,
    starter: &BTreeMap<String, String>,
    cancel: &CancellationToken,
) -> Result<(), CloneError> {
    let program = find_programs(starter, "git")
        .into_iter()
        .next()
        .ok_or(CloneError::NoGit)?;
    let at = |path: &Path, made: io::Result<()>| {
        made.map_err(|source| CloneError::Folder {
            path: path.to_owned(),
            source,
        })
    };
    at(folder, std::fs::create_dir(folder))?;
    let folder = &folder.canonicalize().map_err(|source| CloneError::Folder {
        path: folder.to_owned(),
        source,
    })?;
    let mut git = GitProgram {
        program,
        folder,
        environment: clone_environment(url, walls, starter),
        state,
        url,
        walls,
        credential: None,
        cancel,
    };
    if walls == CloneWalls::Sandbox {
        check_sandbox(url)?;
        let left = git.fetch(starter)?;
        CopyPlan::of_repository(&left.repository)?.write(folder)?;
        let config = folder.join(".git/config");
        at(&config, std::fs::write(&config, url.configuration(has_sha256(folder))))?;
    } else {
        git.run(&git.fetching(), None)?;
    }
    let attributes = folder.join(".git/info/attributes");
    at(&attributes, std::fs::create_dir_all(folder.join(".git/info")))?;
    at(&attributes, std::fs::write(&attributes, ATTRIBUTES))?;
    git.check_size()?;
    let checkout = ["checkout", "--quiet", "--force", "HEAD", "--"].map(str::to_owned);
    if let Some(left) = git.run(&checkout, None)?.left {
        CopyPlan::of_work_tree(&left.repository)?.write(folder)?;
    }
    Ok(())
}

/// True if a pack is named by SHA-256, which means that its objects are as well.
fn has_sha256(folder: &Path) -> bool {
    let packs = std::fs::read_dir(folder.join(".git/objects/pack"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names = packs.map(|pack| pack.file_name());
    names.any(|name| name.len() > "pack-.pack".len() + 40)
}

/// Clones only the newest commit, and checks nothing out.
const FETCH: [&str; 9] = [
    "clone",
    "--quiet",
    "--no-checkout",
    "--depth=1",
    "--single-branch",
    "--no-tags",
    "--no-recurse-submodules",
    "--template=",
    "--",
];

/// Fails if git cannot run in a sandbox.
fn check_sandbox(url: &CloneUrl) -> Result<(), CloneError> {
    let available = program_sandbox::detect_sandbox();
    if available.sandbox != Sandbox::Namespaces {
        return Err(CloneError::NoSandbox {
            why: available.refused.join("; "),
        });
    }
    if url.transport == CloneTransport::Ssh {
        return Err(CloneError::Ssh { url: url.clone() });
    }
    Ok(())
}

/// The environment of git. With the user's rights it has the variables that lead to servers and credentials. In any
/// case, git may not ask the user.
fn clone_environment(
    url: &CloneUrl,
    walls: CloneWalls,
    starter: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let names = match walls {
        CloneWalls::Sandbox => &SANDBOX_VARIABLES[..],
        CloneWalls::None => &USER_VARIABLES[..],
    };
    let own = names
        .iter()
        .filter_map(|&name| Some((name.to_owned(), starter.get(name)?.clone())));
    let fixed = [
        ("GIT_ALLOW_PROTOCOL", url.transport.allowed()),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        ("GIT_DEFAULT_REF_FORMAT", "files"),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("LC_ALL", "C"),
    ];
    own.chain(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect()
}

struct GitProgram<'a> {
    program: PathBuf,
    folder: &'a Path,
    environment: BTreeMap<String, String>,
    state: &'a Path,
    url: &'a CloneUrl,
    walls: CloneWalls,
    credential: Option<HostCredential>,
    cancel: &'a CancellationToken,
}

/// A run of git that exited with 0.
struct GitRun {
    output: String,
    left: Option<LeftTrees>,
}

impl GitProgram<'_> {
    /// Fetches in the sandbox, first without a credential: most repositories need none, and asking the helper may
    /// disturb the user.
    fn fetch(&mut self, starter: &BTreeMap<String, String>) -> Result<LeftTrees, CloneError> {
        let arguments = self.fetching();
        let way = ProxyRoute {
            takes_posts: true,
            ..ProxyRoute::to_hosts(
                RegistryHost::from_url(&self.url.text, true).into_iter().collect(),
                starter,
            )
        };
        let fetched = match self.run(&arguments, Some(way.clone())) {
            Err(CloneError::Failed { url, said }) => {
                self.credential = credential::ask_helper(&self.program, self.url, starter, self.cancel);
                match self.credential {
                    Some(_) => self.run(&arguments, Some(way)),
                    None => Err(CloneError::Failed { url, said }),
                }
            }
            fetched => fetched,
        };
        let left = fetched?.left;
        left.ok_or_else(|| self.failed("the sandbox handed nothing back"))
    }

    /// Arguments of git that fetch into the folder.
    fn fetching(&self) -> Vec<String> {
        let places = [self.url.text.clone(), ".".to_owned()];
        FETCH.map(str::to_owned).into_iter().chain(places).collect()
    }

    /// Counts the tree before it is written.
    fn check_size(&self) -> Result<(), CloneError> {
        let list = ["ls-tree", "-r", "-t", "-l", "--full-tree", "HEAD"].map(str::to_owned);
        let listed = self.run(&list, None)?.output;
        // A line holds mode, type, name and size of an entry, then its path.
        let size = |line: &str| line.split_whitespace().nth(3)?.parse::<u64>().ok();
        let pages = |size: u64| size.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        let files = listed.lines().count();
        let bytes = listed.lines().filter_map(size).map(pages).fold(0, u64::saturating_add);
        if files > CLONE_FILES_MAX || bytes > CLONE_BYTES_MAX {
            return Err(CloneError::too_large());
        }
        Ok(())
    }

    /// Runs git in the folder. A sandbox gives it `way`, a connection to one host.
    fn run(&self, arguments: &[String], way: Option<ProxyRoute>) -> Result<GitRun, CloneError> {
        let limits = RunLimits {
            output_kept_bytes: CLONE_LIST_BYTES_MAX,
            output_bytes_max: CLONE_LIST_BYTES_MAX as u64,
            ..RunLimits::within(Duration::from_secs(CLONE_SECONDS_MAX))
        };
        let command = CommandSpec {
            program: self.program.clone(),
            arguments: self.settings().chain(arguments.iter().cloned()).collect(),
            directory: self.folder.to_owned(),
            environment: self.environment.clone(),
        };
        let (ended, left) = match self.walls {
            CloneWalls::None => (run_command(&command, &limits, self.cancel, &|_| {})?, None),
            CloneWalls::Sandbox => {
                let ended = run_handing_back(&command, &self.enclosure(way), &limits, self.cancel, &|_| {})?;
                (ended.run, ended.left)
            }
        };
        match ended.end {
            RunEnd::Exited(0) => Ok(GitRun {
                output: ended.output,
                left,
            }),
            RunEnd::Cancelled => Err(CloneError::Cancelled),
            RunEnd::TimedOut => Err(self.failed(&format!("it took longer than {CLONE_SECONDS_MAX} s"))),
            RunEnd::OutputLimit => Err(CloneError::too_large()),
            // The file system of the sandbox has the size that a repository may have.
            _ if ended.output.contains("No space left on device") => Err(CloneError::too_large()),
            _ => Err(self.failed(&ended.output)),
        }
    }

    fn settings(&self) -> impl Iterator<Item = String> {
        let stalled = format!("http.lowSpeedTime={STALLED_SECONDS}");
        let redirects = match self.url.transport {
            // A server on this machine must not redirect to others without encryption.
            CloneTransport::LoopbackHttp => "http.followRedirects=false",
            CloneTransport::Https | CloneTransport::Ssh => "http.followRedirects=initial",
        };
        let mut settings = vec![
            "core.hooksPath=/dev/null",
            "core.attributesFile=/dev/null",
            "core.fsmonitor=false",
            "submodule.recurse=false",
            "credential.interactive=never",
            "http.lowSpeedLimit=1",
            &stalled,
            redirects,
        ];
        if self.walls == CloneWalls::Sandbox {
            // In the sandbox the folder may seem to belong to another user.
            settings.push("safe.directory=*");
        }
        if self.credential.is_some() {
            settings.push("credential.helper=store");
        }
        let settings = settings.into_iter().flat_map(|setting| ["-c", setting]);
        settings.map(str::to_owned).collect::<Vec<_>>().into_iter()
    }

    fn enclosure(&self, way: Option<ProxyRoute>) -> Enclosure {
        let certificates = CERTIFICATES.iter().filter_map(|name| self.environment.get(*name));
        let home = self.environment.get("HOME");
        let credential = self
            .credential
            .as_ref()
            .filter(|_| way.is_some())
            .zip(home)
            .map(|(credential, home)| WrittenFile {
                place: Path::new(home).join(".git-credentials"),
                text: credential.line(self.url),
            });
        Enclosure {
            sandbox: Sandbox::Namespaces,
            root: self.folder.to_owned(),
            hidden: Vec::new(),
            tracked_links: Vec::new(),
            state_directory: Some(self.state.to_owned()),
            bounds: RunBounds {
                tree_bytes: CLONE_BYTES_MAX,
                ..RunBounds::default()
            },
            installation: way.map(|way| Installation {
                outside: None,
                shown: certificates.map(PathBuf::from).collect(),
                way,
            }),
            tools: ToolAccess {
                files: credential.into_iter().collect(),
                hands_back: true,
                ..ToolAccess::default()
            },
        }
    }

    fn failed(&self, output: &str) -> CloneError {
        let line = clean_line(output.trim());
        let skipped = line.chars().count().saturating_sub(QUOTED_CHARS_MAX);
        CloneError::Failed {
            url: self.url.clone(),
            said: line.chars().skip(skipped).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(text: &str) -> Option<CloneTransport> {
        CloneUrl::parse(text).map(|url| url.expect("it may be cloned").transport)
    }

    #[test]
    fn urls_are_told_from_paths() {
        for path in ["shop", "/srv/shop", "./a:b", "a/b:c", ".."] {
            assert_eq!(transport(path), None, "{path}");
        }
        for url in ["https://host.example/a.git", "HTTPS://host.example:8443/a"] {
            assert_eq!(transport(url), Some(CloneTransport::Https), "{url}");
        }
        for url in ["git@host.example:team/a.git", "ssh://git@host.example/a", "host:a"] {
            assert_eq!(transport(url), Some(CloneTransport::Ssh), "{url}");
        }
        for url in ["http://127.0.0.1:8080/a", "http://localhost/a", "http://[::1]:1/a"] {
            assert_eq!(transport(url), Some(CloneTransport::LoopbackHttp), "{url}");
        }
    }

    #[test]
    fn git_gets_no_key_of_a_model_and_may_use_one_transport() {
        let starter = [
            ("HOSTED_API_KEY", "k"),
            ("OPENAI_API_KEY", "k"),
            ("GIT_DIR", "/x"),
            ("HOME", "/home/me"),
        ];
        let starter = starter.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let url = CloneUrl::parse("git@host.example:a")
            .expect("a URL")
            .expect("it may be cloned");
        let given = clone_environment(&url, CloneWalls::None, &starter);
        assert_eq!(given.get("HOME").map(String::as_str), Some("/home/me"));
        assert_eq!(given.get("GIT_ALLOW_PROTOCOL").map(String::as_str), Some("ssh"));
        assert!(
            !given.values().any(|value| value == "k") && !given.contains_key("GIT_DIR"),
            "{given:?}"
        );
    }

    #[test]
    fn other_transports_passwords_and_options_are_refused() {
        let refused = |text: &str| {
            CloneUrl::parse(text)
                .expect("it is no path")
                .expect_err("it is refused")
        };
        for text in ["file:///srv/a", "git://host/a", "ext::sh -c x", "fd::3"] {
            assert!(matches!(refused(text), CloneUrlError::Transport(_)), "{text}");
        }
        for text in [
            "http://host.example/a",
            "http://127.0.0.1.example/a",
            "http://localhost@host.example/a",
        ] {
            assert!(matches!(refused(text), CloneUrlError::Unencrypted(_)), "{text}");
        }
        for text in ["https://token@host/a", "https://me:pw@host/a", "ssh://me:pw@host/a"] {
            assert_eq!(refused(text), CloneUrlError::Password, "{text}");
        }
        for text in [
            "ssh://-oProxyCommand=x/a",
            "ssh://-x@host/a",
            "-oProxyCommand=x:a",
            "git@-host:a",
            "https:///a",
            "https://host/a b",
            "https://host/a\n",
        ] {
            assert!(matches!(refused(text), CloneUrlError::Malformed(_)), "{text:?}");
        }
    }
}
