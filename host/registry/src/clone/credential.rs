//! Asks the user's credential helper about the host of one URL, outside of the sandbox.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{CloneTransport, CloneUrl, CloneWalls, clone_environment};
use tool_core::text::percent_encode;
use tool_sandbox::{CommandSpec, RunEnd, RunLimits, run_command};

/// Time limit for a helper in seconds. A helper may ask a server.
const HELPER_SECONDS_MAX: u64 = 60;

/// Shell script that passes the question to git on standard input. `$1` is git.
const ASK: &str = "printf 'protocol=%s\\nhost=%s\\npath=%s\\n\\n' \"$2\" \"$3\" \"$4\" | \
                   \"$1\" -c credential.interactive=never credential fill";

/// User name and password for one host.
pub(super) struct HostCredential {
    user: String,
    password: String,
}

impl HostCredential {
    /// The credential as a line in the format of `git credential-store`.
    pub(super) fn line(&self, url: &CloneUrl) -> String {
        let [scheme, host, _] = split_address(url);
        format!(
            "{scheme}://{}:{}@{host}\n",
            percent_encode(&self.user, ""),
            percent_encode(&self.password, "")
        )
    }
}

/// Asks the helper of the user's git. Returns `None` if it has no answer. Blocks.
pub(super) fn ask_helper(
    git: &Path,
    url: &CloneUrl,
    starter: &BTreeMap<String, String>,
    cancel: &CancellationToken,
) -> Option<HostCredential> {
    if url.transport == CloneTransport::Ssh {
        return None;
    }
    let own = ["-c", ASK, "sh"].map(str::to_owned).into_iter();
    let command = CommandSpec {
        program: "/bin/sh".into(),
        arguments: own
            .chain([git.display().to_string()])
            .chain(split_address(url))
            .collect(),
        directory: "/".into(),
        environment: clone_environment(url, CloneWalls::None, starter),
    };
    let limits = RunLimits::within(Duration::from_secs(HELPER_SECONDS_MAX));
    let ended = run_command(&command, &limits, cancel, &|_| {}).ok()?;
    let value = |name: &str| {
        let mut values = ended.output.lines().filter_map(|line| line.split_once('='));
        values.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let is_answer = matches!(ended.end, RunEnd::Exited(0));
    Some(HostCredential {
        user: value("username").filter(|_| is_answer)?,
        password: value("password")?,
    })
}

/// Splits a URL into scheme, host with port, and path.
fn split_address(url: &CloneUrl) -> [String; 3] {
    let (scheme, rest) = url.text.split_once("://").unwrap_or(("", &url.text));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    [scheme.to_ascii_lowercase(), host.to_owned(), path.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_for_the_host_of_the_url_alone() {
        let url = CloneUrl::parse("HTTPS://git.example:8443/team/a.git")
            .expect("a URL")
            .expect("it may be cloned");
        let credential = HostCredential {
            user: "ada@example.org".to_owned(),
            password: "p:/@\n%".to_owned(),
        };
        assert_eq!(
            credential.line(&url),
            "https://ada%40example%2Eorg:p%3A%2F%40%0A%25@git.example:8443\n"
        );
        assert_eq!(split_address(&url)[2], "team/a.git");
    }
}
