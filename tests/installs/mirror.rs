//! A package index and an npm registry on loopback, and packages for them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::{fixture_path, folder, run};

/// Contents by path. `{url}` in a content is the address of the mirror.
type Routes = BTreeMap<String, Vec<u8>>;

/// A mirror, first to be filled.
#[derive(Default)]
pub(super) struct Mirror {
    routes: Routes,
    asked: Arc<Mutex<Vec<String>>>,
    pub(super) url: String,
}

impl Mirror {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn add(&mut self, path: &str, content: &[u8]) {
        self.routes.insert(path.to_owned(), content.to_vec());
    }

    /// One version of a package in the index.
    pub(super) fn add_wheel(&mut self, name: &str, version: &str, wheel: &[u8]) {
        let file = format!("{name}-{version}-py3-none-any.whl");
        self.add_file(name, &file, wheel);
    }

    pub(super) fn add_file(&mut self, name: &str, file: &str, content: &[u8]) {
        let page = format!("<!DOCTYPE html><html><body><a href=\"/files/{file}\">{file}</a></body></html>");
        self.add(&format!("/simple/{name}/"), page.as_bytes());
        self.add(&format!("/files/{file}"), content);
    }

    /// A package of the registry with its versions.
    pub(super) fn add_npm(&mut self, name: &str, versions: &[(&str, Vec<u8>)]) {
        let mut documents = serde_json::Map::new();
        for (version, archive) in versions {
            let path = format!("/npm/{name}/-/{name}-{version}.tgz");
            let manifest = manifest_of(archive);
            let mut document = manifest.as_object().cloned().unwrap_or_default();
            document.insert("name".to_owned(), (*name).into());
            document.insert("version".to_owned(), (*version).into());
            document.insert(
                "dist".to_owned(),
                serde_json::json!({"tarball": format!("{{url}}{path}")}),
            );
            documents.insert((*version).to_owned(), document.into());
            self.add(&path, archive);
        }
        let latest = versions.last().map_or("", |(version, _)| version);
        let document = serde_json::json!({"name": name, "dist-tags": {"latest": latest}, "versions": documents});
        self.add(&format!("/npm/{name}"), document.to_string().as_bytes());
    }

    pub(super) fn start(mut self) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
        self.url = format!("http://{}", listener.local_addr().expect("it has one"));
        let (routes, asked, url) = (self.routes.clone(), Arc::clone(&self.asked), self.url.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &routes, &asked, &url);
            }
        });
        self
    }

    /// Its port, as it stands in addresses.
    pub(super) fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap_or_default()
    }

    /// The paths that were asked for.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

fn request_line(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    lines
        .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
        .for_each(drop);
    Some(first)
}

fn answer(mut stream: TcpStream, routes: &Routes, asked: &Mutex<Vec<String>>, url: &str) {
    // A connection without a request was an attempt all the same.
    let line = request_line(&stream).unwrap_or_default();
    let path = line.split(' ').nth(1).unwrap_or("nothing").to_owned();
    asked.lock().expect("not poisoned").push(path.clone());
    let (status, body) = match routes.get(&path) {
        Some(content) => match std::str::from_utf8(content) {
            Ok(text) => ("200 OK", text.replace("{url}", url).into_bytes()),
            Err(_) => ("200 OK", content.clone()),
        },
        None => ("404 Not Found", b"{}".to_vec()),
    };
    let kind = if path.starts_with("/simple/") {
        "text/html"
    } else {
        "application/octet-stream"
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // A client that has gone gets no answer.
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}

/// A proxy that records its requests and reaches no server.
pub(super) struct Upstream {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
        let url = format!("http://{}", listener.local_addr().expect("it has one"));
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let notes = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let line = request_line(&stream).unwrap_or_default();
                notes.lock().expect("not poisoned").push(line);
                let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
            }
        });
        Self { url, asked }
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

const MAKE_WHEEL: &str = r#"
import json, sys, zipfile
name, version, files, requires = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
with zipfile.ZipFile("out.whl", "w") as wheel:
    for path, text in files:
        wheel.writestr(path, text)
    info = "%s-%s.dist-info/" % (name, version)
    metadata = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)
    wheel.writestr(info + "METADATA", metadata + ("Requires-Dist: %s\n" % requires if requires else ""))
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "".join("%s,,\n" % path for path, _ in files) + info + "RECORD,,\n")
"#;

/// A wheel with these files and one requirement.
pub(super) fn wheel(name: &str, version: &str, files: &[(&str, &str)], requires: &str) -> Vec<u8> {
    let place = folder(&[]);
    let python = fixture_path("click-8.1.8").join(".venv/bin/python");
    let files = serde_json::json!(files).to_string();
    run(
        place.path(),
        &python,
        &["-c", MAKE_WHEEL, name, version, &files, requires],
    );
    std::fs::read(place.path().join("out.whl")).expect("it was made")
}

/// An archive of the registry; `further` are fields of its manifest, each with a comma before it.
pub(super) fn npm_package(name: &str, version: &str, further: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let manifest = format!("{{\"name\": \"{name}\", \"version\": \"{version}\"{further}}}\n");
    let place = folder(&[("package/package.json", &manifest)]);
    for (path, text) in files {
        std::fs::write(place.path().join("package").join(path), text).expect("the folder is writable");
    }
    std::fs::write(place.path().join("manifest"), &manifest).expect("the folder is writable");
    run(place.path(), Path::new("tar"), &["-czf", "out.tgz", "package"]);
    std::fs::read(place.path().join("out.tgz")).expect("it was made")
}

/// The manifest within an archive, which a registry repeats.
fn manifest_of(archive: &[u8]) -> serde_json::Value {
    let place = folder(&[]);
    std::fs::write(place.path().join("in.tgz"), archive).expect("the folder is writable");
    #[expect(clippy::disallowed_methods, reason = "the tests do what a registry does")]
    let output = std::process::Command::new("tar")
        .args(["-xOzf", "in.tgz", "package/package.json"])
        .current_dir(place.path())
        .output()
        .expect("there is a tar");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}
