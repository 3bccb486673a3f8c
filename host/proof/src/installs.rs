//! Attempts to misuse an installation, by name. Each is made by a program in the place of an installer, with access to
//! two registries, and is judged by the files afterwards.
//!
//! Nothing leaves this machine: the registries are names for its loopback. What any run can try is in
//! [`crate::probes`]; this module has only what an installation adds: the proxy, and the files that are put in place.

use tokio_util::sync::CancellationToken;

use tool_sandbox::program_sandbox::{self, Sandbox};

use crate::{ProbeOutcome, ProbeResult};

/// One attempt.
#[derive(Debug, Clone, Copy)]
pub struct InstallAttempt {
    /// Its name.
    pub name: &'static str,
    /// Completes "an installation tries to …".
    pub tries: &'static str,
    /// Program that runs in the place of the installer.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has a sandbox"))]
    program: &'static str,
}

/// All of them.
pub const ATTEMPTS: [InstallAttempt; 6] = [
    InstallAttempt {
        name: "install-other-place",
        tries: "reach a server that is no registry",
        program: "connect('127.0.0.1', know['stranger'])",
    },
    InstallAttempt {
        name: "install-private-address",
        tries: "reach this machine by the name of a registry",
        program: "connect('localhost', know['stranger'])",
    },
    InstallAttempt {
        name: "install-backend",
        tries: "reach the backend by its socket",
        program: "reach(know['backend'])",
    },
    InstallAttempt {
        name: "install-special-file",
        tries: "leave a FIFO among the packages",
        program: "os.mkfifo('packages/pipe')",
    },
    InstallAttempt {
        name: "install-hidden-file",
        tries: "replace a file among the packages that is hidden from it",
        program: "open('packages/.env', 'w').write('forged')",
    },
    InstallAttempt {
        name: "install-rights",
        tries: "leave a program that gives its owner's rights away",
        program: "open('packages/program', 'w').close(); os.chmod('packages/program', 0o4755)",
    },
];

/// Makes the attempts with the wanted names, one after the other; `each` gets every result. Ends early if it is
/// cancelled.
pub fn probe_installs(is_wanted: impl Fn(&str) -> bool, cancel: &CancellationToken, mut each: impl FnMut(ProbeResult)) {
    for attempt in ATTEMPTS.iter().filter(|attempt| is_wanted(attempt.name)) {
        let outcome = attempt.make(cancel);
        if cancel.is_cancelled() {
            return;
        }
        each(outcome.into_result(attempt.name, attempt.tries));
    }
}

impl InstallAttempt {
    /// Makes the attempt in the sandbox of this machine.
    pub fn make(&self, cancel: &CancellationToken) -> ProbeOutcome {
        let available = program_sandbox::detect_sandbox();
        match available.sandbox {
            Sandbox::Namespaces => make_attempt(self, cancel),
            _ => ProbeOutcome::NotAvailable(available.refused.join("; ")),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn make(_: &InstallAttempt, _: &CancellationToken) -> ProbeOutcome {
    ProbeOutcome::NotAvailable("only Linux has a sandbox".to_owned())
}

#[cfg(target_os = "linux")]
fn make_attempt(attempt: &InstallAttempt, cancel: &CancellationToken) -> ProbeOutcome {
    let Some(python) = crate::probes::find_python() else {
        return ProbeOutcome::NotAvailable("there is no `python3` to make the attempts".to_owned());
    };
    let played = scene::InstallScene::new().and_then(|scene| scene.play(attempt, &python, cancel));
    played.unwrap_or_else(|error| ProbeOutcome::NotAvailable(error.to_string()))
}

#[cfg(target_os = "linux")]
mod scene {
    //! A repository with a folder of packages, and a server that no installer may reach.

    use std::collections::HashSet;
    use std::ffi::OsStr;
    use std::fs;
    use std::io;
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::os::unix::net::UnixListener;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use rustix::fs::{Mode, OFlags};
    use tokio_util::sync::CancellationToken;

    use tool_core::limits;
    use tool_sandbox::program_sandbox::{Enclosure, Installation, LeftTrees, Sandbox, ToolAccess};
    use tool_sandbox::proxy::{ProxyRoute, RegistryHost};
    use tool_sandbox::{CommandSpec, EndedRun, RunEnd, RunLimits};
    use tool_skill::package_folder::{self, PackageFolder, PlacedFolder};

    use super::InstallAttempt;
    use crate::{ProbeOutcome, probes};

    /// Asks the proxy for a connection and returns its answer.
    const START: &str = "import json, os, socket\n\
        know = json.loads(os.environ['PROBE'])\n\
        def connect(host, port):\n    \
            proxy = os.environ['HTTPS_PROXY'].rsplit('/', 1)[1].split(':')\n    \
            with socket.create_connection((proxy[0], int(proxy[1])), timeout=5) as way:\n        \
                way.sendall(b'CONNECT %s:%d HTTP/1.1\\r\\n\\r\\n' % (host.encode(), port))\n        \
                print(way.recv(4096).split(b'\\r\\n')[0].decode())\n\
        def reach(path):\n    \
            with socket.socket(socket.AF_UNIX) as way:\n        \
                if way.connect_ex(path):\n            \
                    return\n        \
                way.sendall(b'escaped')\n";

    const SECRET: &str = "the user's";

    pub(super) struct InstallScene {
        _folder: tempfile::TempDir,
        repository: PathBuf,
        stranger: TcpListener,
        state: PathBuf,
        backend: UnixListener,
    }

    impl InstallScene {
        pub(super) fn new() -> io::Result<Self> {
            let folder = tempfile::tempdir()?;
            let base = folder.path().canonicalize()?;
            let (repository, state) = (base.join("repository"), base.join("state"));
            fs::create_dir(&state)?;
            let backend = UnixListener::bind(state.join("backend.sock"))?;
            backend.set_nonblocking(true)?;
            fs::create_dir_all(repository.join("packages"))?;
            fs::write(repository.join("packages/.env"), SECRET)?;
            let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            stranger.set_nonblocking(true)?;
            Ok(Self {
                _folder: folder,
                repository,
                stranger,
                state,
                backend,
            })
        }

        pub(super) fn play(
            &self,
            attempt: &InstallAttempt,
            python: &Path,
            cancel: &CancellationToken,
        ) -> io::Result<ProbeOutcome> {
            let ended = self.run(attempt, python, cancel)?;
            if ended.run.end != RunEnd::Exited(0) {
                let said = ended.run.output.trim_end();
                return Ok(ProbeOutcome::Odd(format!("{:?} {said}", ended.run.end)));
            }
            let kept = ended.left.as_ref().map_or(Ok(()), |left| self.keep(left));
            Ok(self.judge(&ended, kept))
        }

        fn run(&self, attempt: &InstallAttempt, python: &Path, cancel: &CancellationToken) -> io::Result<EndedRun> {
            let stranger = self.stranger.local_addr()?.port();
            let backend = self.state.join("backend.sock");
            let known = serde_json::json!({ "stranger": stranger, "backend": backend }).to_string();
            let variables = [("PROBE", known), ("PATH", "/usr/bin:/bin".to_owned())];
            let command = CommandSpec {
                program: python.to_owned(),
                arguments: vec!["-I".into(), "-c".into(), format!("{START}{}", attempt.program)],
                directory: self.repository.clone(),
                environment: variables.map(|(name, value)| (name.to_owned(), value)).into(),
            };
            // One server that the user named, and one by whose name the stranger would be reached.
            let registry = |host: &str, port, is_own| RegistryHost {
                host: host.to_owned(),
                port,
                is_plain: false,
                is_own,
            };
            let way = ProxyRoute {
                places: vec![registry("127.0.0.1", 1, true), registry("localhost", stranger, false)],
                ..ProxyRoute::default()
            };
            let enclosure = Enclosure {
                sandbox: Sandbox::Namespaces,
                root: self.repository.clone(),
                hidden: vec!["packages/.env".into()],
                tracked_links: Vec::new(),
                state_directory: Some(self.state.clone()),
                bounds: probes::BOUNDS,
                installation: Some(Installation {
                    outside: None,
                    shown: Vec::new(),
                    way,
                }),
                tools: ToolAccess::default(),
            };
            let limits = RunLimits::within(Duration::from_secs(limits::CONTAIN_PROBE_SECONDS_MAX));
            tool_sandbox::run_handing_back(&command, &enclosure, &limits, cancel, &|_| {}).map_err(io::Error::other)
        }

        /// Puts the package folder in place, as after a successful installation.
        fn keep(&self, left: &LeftTrees) -> Result<(), String> {
            let open = |folder: rustix::fd::BorrowedFd<'_>, name: &str| {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(|error| error.to_string())
            };
            let real = fs::File::open(&self.repository).map_err(|error| error.to_string())?;
            let masked = HashSet::from([PathBuf::from(".env")]);
            let folder = PackageFolder {
                parent: real.as_fd(),
                name: OsStr::new("packages"),
                masked: &masked,
                cancel: &CancellationToken::new(),
            };
            let placed = package_folder::place_folder(&folder, &open(left.repository.as_fd(), "packages")?);
            placed.map(PlacedFolder::keep).map_err(|error| error.to_string())
        }

        fn judge(&self, ended: &EndedRun, kept: Result<(), String>) -> ProbeOutcome {
            let got_out = |how: &str| ProbeOutcome::GotOut(how.to_owned());
            let packages = self.repository.join("packages");
            let about = |name: &str| fs::symlink_metadata(packages.join(name));
            if self.stranger.accept().is_ok() {
                return got_out("a server was reached");
            }
            if self.backend.accept().is_ok() {
                return got_out("the backend was reached");
            }
            if about("pipe").is_ok_and(|pipe| pipe.file_type().is_fifo()) {
                return got_out("a FIFO was put in place");
            }
            if fs::read_to_string(packages.join(".env")).ok().as_deref() != Some(SECRET) {
                return got_out("a hidden file was replaced");
            }
            if about("program").is_ok_and(|program| program.mode() & 0o6000 != 0) {
                return got_out("a program was put in place that gives rights away");
            }
            match (kept, ended.refused.first().cloned(), about("program")) {
                (Err(refusal), ..) | (Ok(()), Some(refusal), _) => ProbeOutcome::Held(refusal),
                (Ok(()), None, Ok(_)) => ProbeOutcome::Held("put in place without the rights".to_owned()),
                (Ok(()), None, Err(_)) if ended.run.output.is_empty() => {
                    ProbeOutcome::Held("it is what it was".to_owned())
                }
                _ => ProbeOutcome::Odd(ended.run.output.trim_end().to_owned()),
            }
        }
    }
}
