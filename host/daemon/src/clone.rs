//! Clones repositories with the user's git, in such a way that nothing of a repository runs.
//!
//! The work tree is checked out in a step of its own, after an attributes file that takes effect over those of the
//! repository has turned every filter off. Hooks, templates, submodules and file system monitors are off as well. git
//! may not ask the user: keys come from an agent, passwords from a credential helper.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::process::environment::find_programs;
use crate::process::{CommandSpec, ProcessError, RunEnd, RunLimits, run};
use crate::text::clean_line;

/// Time for one clone. A shallow clone of the largest public repositories takes some minutes.
const CLONE_SECONDS_MAX: u64 = 30 * 60;

/// Seconds without progress after which git gives a transfer up, by its own settings.
const STALLED_SECONDS: u64 = 60;

/// Output of git that an error quotes.
const QUOTED_CHARS_MAX: usize = 400;

/// Longest URL.
const URL_BYTES_MAX: usize = 2048;

/// Attributes that run a program or rewrite a file, turned off. `info/attributes` wins over the files of a repository.
const ATTRIBUTES: &str = "* -filter -ident -text -eol -working-tree-encoding\n";

/// The user's own variables that git needs to reach a server; keys of models are not among them.
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

/// Address of a repository that may be cloned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CloneUrl {
    text: String,
    transport: Transport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Transport {
    Https,
    Ssh,
    /// Without encryption: only on this machine.
    LoopbackHttp,
}

impl Transport {
    /// The value of `GIT_ALLOW_PROTOCOL`, which also holds for redirects.
    fn allowed(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Ssh => "ssh",
            Self::LoopbackHttp => "http",
        }
    }
}

/// Why a text is no address that may be cloned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloneUrlError {
    /// Another transport, such as `file://`, `git://` or `ext::`.
    #[error("`{0}` has a transport that is not used: give https, ssh, or http on this machine")]
    Transport(String),
    /// http to another machine.
    #[error("`{0}` is not encrypted: http is for servers on this machine")]
    Unencrypted(String),
    /// A password or token in the URL would end in results and process lists.
    #[error("a URL holds a password: keep it in a credential helper of git")]
    Password,
    /// A text that git or ssh could take for an option, or that is no URL.
    #[error("`{0}` is no URL of a repository")]
    Malformed(String),
}

impl fmt::Display for CloneUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl CloneUrl {
    /// Reads a URL, or ssh's short form `user@host:path`. Nothing for a path.
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
            .map(|(authority, _)| Self::of_authority(text, authority, Transport::Ssh))
    }

    fn of_scheme(text: &str, scheme: &str, rest: &str) -> Result<Self, CloneUrlError> {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let transport = match scheme.to_ascii_lowercase().as_str() {
            "https" => Transport::Https,
            "ssh" => Transport::Ssh,
            "http" if is_loopback(authority) => Transport::LoopbackHttp,
            "http" => return Err(CloneUrlError::Unencrypted(clean_line(text))),
            _ => return Err(CloneUrlError::Transport(clean_line(text))),
        };
        Self::of_authority(text, authority, transport)
    }

    fn of_authority(text: &str, authority: &str, transport: Transport) -> Result<Self, CloneUrlError> {
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        // The user of ssh is an account; that of https is a name or a token, and `:` begins a password.
        if user.contains(':') || (!user.is_empty() && transport != Transport::Ssh) {
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

/// True for `localhost`, 127.0.0.0/8 and `[::1]`, with a port or without.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Why a repository was not cloned.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// There is no git on the `PATH`.
    #[error("git is not installed")]
    NoGit,
    /// git could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The folder could not be prepared.
    #[error("`{}` could not be used", path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// git failed.
    #[error("git could not clone `{url}`: {said}")]
    Failed {
        /// The address.
        url: CloneUrl,
        /// The end of git's output, on one line.
        said: String,
    },
    /// The clone was cancelled.
    #[error("the clone was cancelled")]
    Cancelled,
}

/// Clones the newest commit of the default branch into `folder`, which must not exist. Blocks. `starter` is the user's
/// environment.
pub fn clone_repository(
    url: &CloneUrl,
    folder: &Path,
    starter: &BTreeMap<String, String>,
    cancel: &CancellationToken,
) -> Result<(), CloneError> {
    let git = Git {
        program: find_programs(starter, "git")
            .into_iter()
            .next()
            .ok_or(CloneError::NoGit)?,
        environment: environment(url, starter),
        url,
        cancel,
    };
    let target = folder.display().to_string();
    let clone = [
        "clone",
        "--quiet",
        "--no-checkout",
        "--depth=1",
        "--single-branch",
        "--no-tags",
    ];
    let plain = ["--no-recurse-submodules", "--template=", "--", &url.text, &target];
    git.run(Path::new("/"), &[&clone[..], &plain[..]].concat())?;
    let attributes = folder.join(".git/info/attributes");
    let prepared =
        std::fs::create_dir_all(folder.join(".git/info")).and_then(|()| std::fs::write(&attributes, ATTRIBUTES));
    prepared.map_err(|source| CloneError::Folder {
        path: attributes,
        source,
    })?;
    git.run(folder, &["checkout", "--quiet", "--force", "HEAD", "--"])
}

/// The variables of git: those of the user that lead to servers and their credentials, and what keeps it from asking.
fn environment(url: &CloneUrl, starter: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = USER_VARIABLES
        .iter()
        .filter_map(|&name| Some((name.to_owned(), starter.get(name)?.clone())));
    let fixed = [
        ("GIT_ALLOW_PROTOCOL", url.transport.allowed()),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("LC_ALL", "C"),
    ];
    own.chain(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect()
}

struct Git<'a> {
    program: PathBuf,
    environment: BTreeMap<String, String>,
    url: &'a CloneUrl,
    cancel: &'a CancellationToken,
}

impl Git<'_> {
    fn run(&self, directory: &Path, arguments: &[&str]) -> Result<(), CloneError> {
        let stalled = format!("http.lowSpeedTime={STALLED_SECONDS}");
        let redirects = match self.url.transport {
            // A server on this machine must not lead to others without encryption.
            Transport::LoopbackHttp => "http.followRedirects=false",
            Transport::Https | Transport::Ssh => "http.followRedirects=initial",
        };
        let settings = [
            "core.hooksPath=/dev/null",
            "core.attributesFile=/dev/null",
            "core.fsmonitor=false",
            "submodule.recurse=false",
            "credential.interactive=never",
            "http.lowSpeedLimit=1",
            &stalled,
            redirects,
        ];
        let settings = settings.into_iter().flat_map(|setting| ["-c", setting]);
        let command = CommandSpec {
            program: self.program.clone(),
            arguments: settings.chain(arguments.iter().copied()).map(str::to_owned).collect(),
            directory: directory.to_owned(),
            environment: self.environment.clone(),
        };
        let limits = RunLimits::within(Duration::from_secs(CLONE_SECONDS_MAX));
        let ended = run(&command, &limits, self.cancel, &|_| {})?;
        match ended.end {
            RunEnd::Exited(0) => Ok(()),
            RunEnd::Cancelled => Err(CloneError::Cancelled),
            RunEnd::TimedOut => Err(self.failed(&format!("it took longer than {CLONE_SECONDS_MAX} s"))),
            _ => Err(self.failed(&ended.output)),
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

    fn transport(text: &str) -> Option<Transport> {
        CloneUrl::parse(text).map(|url| url.expect("it may be cloned").transport)
    }

    #[test]
    fn urls_are_told_from_paths() {
        for path in ["shop", "/srv/shop", "./a:b", "a/b:c", ".."] {
            assert_eq!(transport(path), None, "{path}");
        }
        for url in ["https://host.example/a.git", "HTTPS://host.example:8443/a"] {
            assert_eq!(transport(url), Some(Transport::Https), "{url}");
        }
        for url in ["git@host.example:team/a.git", "ssh://git@host.example/a", "host:a"] {
            assert_eq!(transport(url), Some(Transport::Ssh), "{url}");
        }
        for url in ["http://127.0.0.1:8080/a", "http://localhost/a", "http://[::1]:1/a"] {
            assert_eq!(transport(url), Some(Transport::LoopbackHttp), "{url}");
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
        let given = environment(&url, &starter);
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
