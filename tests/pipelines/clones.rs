//! Clones of a batch: from a git server on loopback, with everything in the repository and in the user's configuration that
//! would run a program.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Home, folder, git, holds};

/// A git server over http on loopback: `git upload-pack` behind two routes. It serves until the test's process ends.
fn serve_git(repositories: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    let repositories = repositories.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let repositories = repositories.clone();
            // A client that goes away early is its own business.
            std::thread::spawn(move || answer(stream, &repositories));
        }
    });
    address
}

fn answer(mut stream: TcpStream, repositories: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut request = String::new();
    reader.read_line(&mut request).ok()?;
    let path = request.split(' ').nth(1)?.to_owned();
    let (mut length, mut authorization) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("authorization:") {
            authorization = value.trim().to_owned();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    // The name and the password of `locked`, in the base64 of Basic authentication, lower case.
    if path.starts_with("/locked") && authorization != "basic ywrhonmzy3jldd86" {
        let head = "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"x\"\r\ncontent-length: 0\r\n\
                    connection: close\r\n\r\n";
        return stream.write_all(head.as_bytes()).ok();
    }
    let (kind, content) = if let Some(name) = path.strip_suffix("/info/refs?service=git-upload-pack") {
        let mut content = b"001e# service=git-upload-pack\n0000".to_vec();
        content.extend(upload_pack(
            &repository(repositories, name),
            &["--http-backend-info-refs"],
            &[],
        )?);
        ("advertisement", content)
    } else {
        let name = path.strip_suffix("/git-upload-pack")?;
        ("result", upload_pack(&repository(repositories, name), &[], &body)?)
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-{kind}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        content.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&content).ok()
}

fn repository(repositories: &Path, name: &str) -> PathBuf {
    repositories.join(name.trim_start_matches('/'))
}

#[expect(clippy::disallowed_methods, reason = "the server's git")]
fn upload_pack(repository: &Path, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut server = Command::new("git")
        .args(["upload-pack", "--stateless-rpc"])
        .args(arguments)
        .arg(repository)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    server.stdin.take()?.write_all(input).ok()?;
    Some(server.wait_with_output().ok()?.stdout)
}

/// A script that leaves a trace.
fn trap(place: &Path, trace: &Path) {
    fs::create_dir_all(place.parent().expect("a folder")).expect("the folder is writable");
    fs::write(place, format!("#!/bin/sh\necho x >>'{}'\nexec cat\n", trace.display())).expect("the folder is writable");
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A user whose git runs programs at a checkout: a filter, hooks, a template, a monitor.
fn set_traps(home: &Home) -> PathBuf {
    let (trace, place) = (home.path().join("PWNED"), home.path().join("traps"));
    for name in [
        "filter",
        "hooks/post-checkout",
        "template/hooks/post-checkout",
        "monitor",
    ] {
        trap(&place.join(name), &trace);
    }
    let traps = place.display();
    let configuration = format!(
        "[filter \"trap\"]\n\tsmudge = {traps}/filter\n\trequired = true\n[core]\n\thooksPath = {traps}/hooks\n\
         \tfsmonitor = {traps}/monitor\n[init]\n\ttemplateDir = {traps}/template\n[submodule]\n\trecurse = true\n\
         [protocol]\n\tallow = always\n"
    );
    fs::write(home.path().join(".gitconfig"), configuration).expect("the folder is writable");
    trace
}

/// Runs git with this input; gives the name of the object that it prints.
#[expect(
    clippy::disallowed_methods,
    reason = "the test makes objects that no work tree holds"
)]
fn object(root: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(arguments)
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git runs");
    let mut writer = command.stdin.take().expect("it is piped");
    writer.write_all(input.as_bytes()).expect("git reads it");
    drop(writer);
    let output = command.wait_with_output().expect("git ends");
    String::from_utf8(output.stdout)
        .expect("a name is ASCII")
        .trim()
        .to_owned()
}

/// A repository of some kilobytes whose tree has ten folders in each of ten folders, `levels` times, with ten files each.
fn make_bomb(root: &Path, levels: usize) {
    fs::create_dir_all(root).expect("the folder is writable");
    git(root, &["init", "--quiet"]);
    let blob = object(root, &["hash-object", "-w", "--stdin"], &"a = 1\n".repeat(680));
    let ten = |line: &dyn Fn(usize) -> String| (0..10).map(line).collect::<String>();
    let mut tree = object(root, &["mktree"], &ten(&|i| format!("100644 blob {blob}\tf{i}.py\n")));
    for _ in 0..levels {
        tree = object(root, &["mktree"], &ten(&|i| format!("040000 tree {tree}\td{i}\n")));
    }
    let commit = object(root, &["commit-tree", &tree, "-m", "one"], "");
    git(root, &["update-ref", "HEAD", &commit]);
}

/// The result of the only repository of a batch.
fn only_result(place: &Path) -> Value {
    let lines = fs::read_to_string(place.join("batch-results/results/1-of-1.jsonl")).expect("it is there");
    serde_json::from_str(&lines).expect("one line of JSON")
}

#[test]
fn a_tree_that_is_too_large_is_refused_before_it_is_written() {
    let (home, served) = (Home::offline(), folder(&[]));
    make_bomb(&served.path().join("bomb"), 5);
    make_bomb(&served.path().join("small"), 1);
    let url = serve_git(served.path());
    for (name, exit) in [("small", 0), ("bomb", 1)] {
        let place = folder(&[("list.txt", &format!("{url}/{name}\n"))]);
        home.run(place.path(), &["batch", "list.txt"]).expect(exit);
        let result = only_result(place.path());
        if name == "bomb" {
            assert_eq!(
                result["error"]["message"],
                "the repository is too large to be cloned: more than 400000 files or 2 GiB"
            );
        }
        let clones = fs::read_dir(place.path().join("batch-results/clones")).expect("it is there");
        assert_eq!(clones.count(), 0, "{name}");
    }
}

#[test]
fn the_answer_of_the_users_credential_helper_reaches_the_host_of_the_url() {
    let (home, served) = (
        Home::offline(),
        folder(&[("locked/README.md", "# Locked\n\nCounts crates.\n")]),
    );
    commit_all(&served.path().join("locked"));
    let list = format!("{}/locked\n", serve_git(served.path()));
    let place = folder(&[("list.txt", &list)]);
    home.run(place.path(), &["batch", "list.txt"]).expect(1);
    let helper = home.path().join("helper");
    fs::write(&helper, "#!/bin/sh\necho username=ada\necho password=s3cret?:\n").expect("the folder is writable");
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let configuration = format!("[credential]\n\thelper = {}\n", helper.display());
    fs::write(home.path().join(".gitconfig"), configuration).expect("the folder is writable");
    home.run(place.path(), &["batch", "list.txt", "--retry-failed"])
        .expect(0);
    holds(
        only_result(place.path())["output"].as_str().expect("a text"),
        &["Counts crates."],
    );
}

#[test]
fn an_address_of_ssh_is_cloned_only_without_the_sandbox() {
    let home = Home::offline();
    let place = folder(&[("list.txt", "git@127.0.0.1:team/shop.git\n")]);
    home.run(place.path(), &["batch", "list.txt"]).expect(1);
    let error = &only_result(place.path())["error"];
    holds(
        error["message"].as_str().expect("a text"),
        &["has no way out of the sandbox"],
    );
    holds(
        error["hint"].as_str().expect("a text"),
        &["https address", "--unsandboxed"],
    );
    home.run(place.path(), &["batch", "list.txt", "--unsandboxed", "--retry-failed"])
        .expect(1);
    let error = &only_result(place.path())["error"];
    holds(
        error["message"].as_str().expect("a text"),
        &["git could not clone `git@127.0.0.1:team/shop.git`"],
    );
}

/// Makes a folder a git repository with one commit.
fn commit_all(root: &Path) {
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "."],
        &["commit", "--quiet", "-m", "one"],
    ] {
        git(root, arguments);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "an ordinary clone shows that the traps work")]
fn a_clone_runs_no_hook_no_filter_and_no_submodule() {
    let home = Home::offline();
    let trace = set_traps(&home);
    let served = folder(&[
        ("shop/README.md", "# Shop\n\nCounts crates.\n"),
        ("shop/data.bin", "stored\r\n"),
        ("shop/.gitattributes", "*.bin filter=trap\n*.md text eol=crlf ident\n"),
        (
            "shop/.gitmodules",
            "[submodule \"sub\"]\n\tpath = sub\n\turl = ../other\n\tupdate = !touch PWNED\n",
        ),
    ]);
    let shop = served.path().join("shop");
    commit_all(&shop);
    let url = format!("{}/shop", serve_git(served.path()));
    let plain = Command::new("git")
        .args(["clone", "--quiet", &url, "plain"])
        .current_dir(home.path())
        .env("HOME", home.path())
        .output()
        .expect("git runs");
    assert!(trace.exists(), "the traps work: {plain:?}");
    fs::remove_file(&trace).expect("it is ours");
    let place = folder(&[("list.txt", &format!("{url}\n"))]);
    home.run(place.path(), &["batch", "list.txt"]).expect(0);
    assert!(!trace.exists(), "something of the repository ran");
    let line = fs::read_to_string(place.path().join("batch-results/results/1-of-1.jsonl")).expect("it is there");
    let result: Value = serde_json::from_str(&line).expect("JSON");
    holds(result["output"].as_str().expect("a text"), &["Counts crates."]);
    let clones = fs::read_dir(place.path().join("batch-results/clones")).expect("it is there");
    assert_eq!(clones.count(), 0, "a clone without changes is removed");
    // Files are as they are stored, and a server that does not answer is a failed repository.
    fs::write(
        place.path().join("list.txt"),
        format!("{url}/none\nhttp://127.0.0.1:1/a\n"),
    )
    .expect("it is ours");
    let failed = home
        .run(place.path(), &["batch", "list.txt", "--results", "second"])
        .expect(1);
    holds(&failed.stderr, &["git could not clone `http://127.0.0.1:1/a`: "]);
}

#[test]
fn a_clone_with_changes_is_kept_as_it_was_stored() {
    let server = tool_model_server::ModelServer::start(tool_model_server::Script::new([
        tool_model_server::Round::calls([tool_model_server::ScriptedCall::new(
            "write_file",
            serde_json::json!({"path": "NOTES.md", "content": "# Notes\n"}),
        )]),
        tool_model_server::Round::text("Added NOTES.md:1.\n"),
    ]))
    .expect("a free port");
    let home = Home::configured(&super::scripted(&server));
    let trace = set_traps(&home);
    let served = folder(&[
        ("shop/README.md", "# Shop\n"),
        ("shop/data.bin", "stored\r\n"),
        ("shop/.gitattributes", "*.bin filter=trap\n*.md text eol=crlf\n"),
    ]);
    let shop = served.path().join("shop");
    commit_all(&shop);
    let place = folder(&[("list.txt", &format!("{}/shop\n", serve_git(served.path())))]);
    let arguments = [
        "batch",
        "list.txt",
        "--operation",
        "refactor",
        "--task",
        "add notes",
        "--unverified",
    ];
    home.run(place.path(), &arguments).expect(0);
    let line = fs::read_to_string(place.path().join("batch-results/results/1-of-1.jsonl")).expect("it is there");
    let result: Value = serde_json::from_str(&line).expect("JSON");
    let clone = Path::new(result["clone"].as_str().expect("it is kept"));
    let read = |name: &str| fs::read_to_string(clone.join(name)).expect("it is there");
    assert_eq!(
        (read("README.md"), read("data.bin")),
        ("# Shop\n".to_owned(), "stored\r\n".to_owned())
    );
    assert_eq!(read("NOTES.md"), "# Notes\n");
    assert!(!trace.exists(), "something of the repository ran");
}
