//! Pages in a real browser: one of another origin, and one whose name leads to another machine first and to this one
//! afterwards. What they try is in `fixtures/browser/attempts.js`; the same page from a listed origin succeeds.
//!
//! The names of the pages are made up and lead to loopback. A name that is bound anew is played as it happens: its page
//! comes from a server of the test at the daemon's port, which then goes away, and the daemon takes its place.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::conformance::http;
use crate::support::{Home, finish, folder};

/// Names under which the browser may be installed. `scripts/fixtures` installs the first.
const BROWSERS: [&str; 4] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
];

/// Longer than a browser takes to start and to try everything on a busy machine; a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(90);

/// Findings of a page: each attempt with its result.
type Findings = BTreeMap<String, String>;

/// A browser and all of its processes, which end with it.
struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Browser {
    #[expect(clippy::disallowed_methods, reason = "the browser is a program of its own")]
    fn open(url: &str) -> Self {
        let profile = TempDir::new().expect("a temporary folder");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path)
            .flat_map(|folder| BROWSERS.map(|name| folder.join(name)))
            .find(|place| place.exists())
            .unwrap_or_else(|| panic!("there is none of {BROWSERS:?}: run scripts/fixtures"));
        let child = Command::new(program)
            .args([
                "--headless",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
            ])
            // Without it the browser refuses to run as root. It meets only pages of this test.
            .args(["--no-sandbox", "--disable-dev-shm-usage"])
            .arg("--host-resolver-rules=MAP evil.test 127.0.0.1, MAP rebind.test 127.0.0.1, MAP listed.test 127.0.0.1")
            // Without a port for debugging the browser would exit once the page is loaded.
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("the browser starts");
        Self {
            child,
            _profile: profile,
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        // It may have ended by itself; then the wait says so.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Reports of the pages, and the page that is next.
#[derive(Default)]
struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<String>,
    turns: Vec<String>,
    reports: BTreeMap<String, Findings>,
}

impl Stage {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().expect("nobody panicked"));
        self.changed.notify_all();
    }

    /// Waits until something is so.
    fn until<T>(&self, what: &str, is_so: impl Fn(&State) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state.lock().expect("nobody panicked");
        loop {
            if let Some(found) = is_so(&state) {
                return found;
            }
            assert!(Instant::now() < deadline, "{what}: waiting {:?}", state.waiting);
            let tick = Duration::from_millis(200);
            state = self.changed.wait_timeout(state, tick).expect("nobody panicked").0;
        }
    }

    fn wait_for_page(&self, who: &str) {
        self.until(&format!("{who} is loaded"), |state| {
            state.waiting.iter().any(|waiting| waiting == who).then_some(())
        });
    }

    fn let_go(&self, who: &str) {
        self.change(|state| state.turns.push(who.to_owned()));
    }

    fn report(&self, who: &str) -> Findings {
        self.until(&format!("{who} has tried everything"), |state| {
            state.reports.get(who).cloned()
        })
    }
}

/// A page that tries its targets and reports to its own name at the test's port.
fn page(who: &str, own_port: u16, targets: &[String], repository: &Path, frames: &[String]) -> String {
    let home = format!("http://{who}.test:{own_port}");
    let frames: String = frames
        .iter()
        .map(|url| format!("<iframe src=\"{url}\"></iframe>"))
        .collect();
    format!(
        "<!doctype html><title>{who}</title><body>{frames}<script>\n\
         const WHO = \"{who}\", HOME = \"{home}\", TARGETS = {}, REPOSITORY = {};\n{}</script>",
        serde_json::json!(targets),
        serde_json::json!(repository),
        include_str!("fixtures/browser/attempts.js"),
    )
}

/// Answers one connection: a page by its path, the wait for a turn, a report.
fn answer(mut connection: TcpStream, pages: &BTreeMap<String, String>, stage: &Stage) -> Option<()> {
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? <= 2 {
            break;
        }
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = first.split(' ').nth(1)?;
    if let Some(who) = path.strip_prefix("/turn/") {
        stage.change(|state| state.waiting.push(who.to_owned()));
        stage.until("its turn", |state| {
            state.turns.iter().any(|turn| turn == who).then_some(())
        });
    } else if let Some(who) = path.strip_prefix("/report/") {
        let findings = serde_json::from_slice(&body).ok()?;
        stage.change(|state| drop(state.reports.insert(who.to_owned(), findings)));
    }
    let (status, page) = match pages.get(path) {
        Some(page) => ("200 OK", page.as_str()),
        None if path == "/favicon.ico" => ("404 Not Found", ""),
        None => ("200 OK", ""),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\naccess-control-allow-origin: *\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        page.len()
    );
    connection.write_all(head.as_bytes()).ok()?;
    connection.write_all(page.as_bytes()).ok()
}

/// Serves pages at a listener, on a thread that ends with the test, or with the listener.
fn serve(listener: TcpListener, pages: BTreeMap<String, String>, stage: &Arc<Stage>) {
    let (pages, stage) = (Arc::new(pages), Arc::clone(stage));
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (pages, stage) = (Arc::clone(&pages), Arc::clone(&stage));
            // A connection that breaks off is the browser's business.
            std::thread::spawn(move || answer(connection, &pages, &stage));
        }
    });
}

/// Serves one page to the one who asks for it at the port that the daemon will have, and gives the port back.
fn serve_until_loaded(listener: TcpListener, page: String, stage: &Arc<Stage>) {
    let pages = BTreeMap::from([("/".to_owned(), page)]);
    listener.set_nonblocking(true).expect("it is a socket");
    let is_loaded = || {
        let state = stage.state.lock().expect("nobody panicked");
        state.waiting.iter().any(|waiting| waiting == "rebind")
    };
    let deadline = Instant::now() + PATIENCE;
    while !is_loaded() {
        assert!(Instant::now() < deadline, "the page is loaded");
        match listener.accept() {
            Ok((connection, _)) => {
                connection.set_nonblocking(false).expect("it is a socket");
                // A connection that the browser opens in advance must not keep a request waiting.
                let patience = Some(Duration::from_millis(500));
                connection.set_read_timeout(patience).expect("a time-out can be set");
                let _ = answer(connection, &pages, stage);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The lines of the access log that are not the command line's.
fn lines_of_pages(home: &Home) -> Vec<String> {
    let log = std::fs::read_to_string(home.path().join("logs/access.log")).expect("the daemon has written it");
    let lines = log.lines().filter(|line| !line.contains("caller=token"));
    lines.map(str::to_owned).collect()
}

fn tasks(address: &str) -> usize {
    http::get(address, "/tasks").json()["tasks"]
        .as_array()
        .map_or(0, Vec::len)
}

#[test]
fn a_page_of_another_origin_reads_and_starts_nothing_nor_does_one_whose_name_is_bound_anew() {
    let repository = folder(&[("app.py", "def main():\n    return 1\n")]);
    let (own, daemons) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (own, daemons) = (own.expect("a port is free"), daemons.expect("a port is free"));
    let port = |listener: &TcpListener| listener.local_addr().expect("it is bound").port();
    let (own_port, port) = (port(&own), port(&daemons));
    let home = Home::configured(&format!(
        "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n\
         [server]\ncors_origins = [\"http://listed.test:{own_port}\"]\n"
    ));
    let at = |names: &[&str]| -> Vec<String> { names.iter().map(|name| format!("http://{name}:{port}")).collect() };
    let (loopback, rebound) = (at(&["127.0.0.1", "localhost"]), at(&["rebind.test"]));
    let frames = [rebound[0].clone(), format!("http://listed.test:{own_port}/listed")];
    let page =
        |who: &str, targets: &[String], frames: &[String]| page(who, own_port, targets, repository.path(), frames);
    let stage = Arc::new(Stage::default());
    let pages = BTreeMap::from([
        ("/evil".to_owned(), page("evil", &loopback, &frames)),
        ("/listed".to_owned(), page("listed", &loopback[..1], &[])),
    ]);
    serve(own, pages, &stage);

    let _browser = Browser::open(&format!("http://evil.test:{own_port}/evil"));
    serve_until_loaded(daemons, page("rebind", &rebound, &[]), &stage);
    let mut start = home.tool(Path::new("/"), &["service", "start"]);
    let start = start.env("TOOL_BACKEND_PORT", port.to_string());
    finish(start.output().expect("the binary runs")).expect(0);
    let address = format!("http://127.0.0.1:{port}");
    for who in ["evil", "listed"] {
        stage.wait_for_page(who);
    }

    stage.let_go("evil");
    let evil = stage.report("evil");
    assert!(evil.len() > 80, "{evil:#?}");
    for (attempt, found) in &evil {
        assert!(found == "failed" || found == "opaque", "{attempt}: {found}");
    }
    stage.let_go("rebind");
    let rebind = stage.report("rebind");
    assert!(rebind.len() > 40, "{rebind:#?}");
    for (attempt, found) in &rebind {
        // The page is of the same origin, as the browser sees it, and may read why it is refused.
        let is_refused = found.starts_with("403 ") && found.contains("\"code\":\"host-not-allowed\"");
        let is_shown = found.contains("\"code\":\"host-not-allowed\"") && attempt.starts_with("f");
        assert!(
            is_refused || is_shown || found == "failed" || found == "opaque",
            "{attempt}: {found}"
        );
    }
    let lines = lines_of_pages(&home);
    assert!(lines.len() > 100, "{} lines", lines.len());
    for line in &lines {
        assert!(line.contains(" status=403 "), "{line}");
    }
    for (code, name) in [
        ("code=origin-not-allowed", format!("origin=http://evil.test:{own_port}")),
        ("code=host-not-allowed", format!("host=rebind.test:{port}")),
    ] {
        let told = lines.iter().filter(|line| line.contains(code) && line.contains(&name));
        assert!(told.count() > 20, "{code} {name}: {lines:#?}");
    }
    assert_eq!(tasks(&address), 0, "no session was started");

    stage.let_go("listed");
    let listed = stage.report("listed");
    let found = |attempt: &str| listed[&format!("{attempt} {}", loopback[0])].clone();
    assert!(found("read /models").starts_with("200 {\"providers\""), "{listed:#?}");
    assert!(
        found("start as application/json").starts_with("200 {\"session_id\""),
        "{listed:#?}"
    );
    assert!(
        found("stream as application/json").starts_with("200 id: "),
        "{listed:#?}"
    );
    assert!(found("start as text/plain").starts_with("415 "), "{listed:#?}");
    assert_eq!(
        (found("start blindly as text/plain"), found("socket")),
        ("opaque".into(), "failed".into())
    );
    assert_eq!(tasks(&address), 2, "what the listed page started, and nothing else");
    let status: Value = http::get(&address, "/api/status").json();
    assert_eq!(status["status"], "running");
}
