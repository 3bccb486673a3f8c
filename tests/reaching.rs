//! A skill that reads a ticket from a server with a secret, and what it may not do: through the real binary, with a server on
//! loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rollout::text;
use crate::support::{Finished, Home, finish, folder, guest, holds};

/// The effects of the guest that read and write outside of the repository.
const EFFECTS: &str = "http:tickets.example.org,http:localhost,http:127.0.0.1,http:plain.example.org,\
     http-write:write.example.org,config,secret:tickets_token,store";

/// The secret that no answer, log, journal or receipt may hold.
const SECRET: &str = "tk-5f0c1d9e7a2b48";

mod encrypted;

/// A server that answers every request with an echo of it, and sends `/redirect` elsewhere. Each request goes to the
/// receiver.
fn server() -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let port = listener.local_addr().expect("it is bound").port();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || serve(BufReader::new(stream), &sender));
        }
    });
    (port, receiver)
}

/// Serves one connection until its client goes.
fn serve(mut reader: BufReader<impl Read + Write>, requests: &mpsc::Sender<String>) {
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = bytes.trim().parse().expect("a number");
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the client sends its body");
        head.push_str(&String::from_utf8_lossy(&body));
        let location = if head.contains(" /redirect ") {
            "location: https://elsewhere.example.org/\r\n"
        } else {
            ""
        };
        let status = if location.is_empty() { "200 OK" } else { "302 Found" };
        let answer = format!(
            "HTTP/1.1 {status}\r\n{location}x-echo: {SECRET}\r\ncontent-length: {}\r\n\r\n{head}",
            head.len()
        );
        // A client that has gone needs no answer.
        let _ = reader.get_mut().write_all(answer.as_bytes());
        let _ = requests.send(head);
    }
}

/// A home with the guest, whose hosts lie on this port, and a repository.
struct World {
    home: Home,
    root: TempDir,
    requests: mpsc::Receiver<String>,
    variables: &'static [(&'static str, &'static str)],
}

impl World {
    fn new() -> Self {
        let (port, requests) = server();
        Self::at(&format!("http://127.0.0.1:{port}"), requests, &[])
    }

    /// The hosts lie at this origin, and the backend has these variables.
    fn at(origin: &str, requests: mpsc::Receiver<String>, variables: &'static [(&'static str, &'static str)]) -> Self {
        let home = Home::configured(&format!(
            "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n\
             [logging]\nlevel = \"TRACE\"\n\
             [skills.config.reaching]\nproject = \"CORE\"\nlimit = 5\n\
             [skills.config.other]\nproject = \"hidden\"\n\
             [skills.hosts]\n\
             \"tickets.example.org\" = \"{origin}\"\n\
             \"write.example.org\" = \"{origin}\"\n"
        ));
        let world = Self {
            home,
            root: folder(&[("a.txt", "x\n")]),
            requests,
            variables,
        };
        let added = world
            .tool(&[
                "skill",
                "add",
                text(&guest("reaching")),
                "--yes",
                "--allow-effects",
                EFFECTS,
            ])
            .expect(0);
        holds(
            &added.stderr,
            &[
                "http:tickets.example.org",
                "http-write:write.example.org",
                "secret:tickets_token",
            ],
        );
        world
    }

    fn tool(&self, arguments: &[&str]) -> Finished {
        let mut command = self.home.tool(self.root.path(), arguments);
        command.envs(self.variables.iter().copied());
        finish(command.output().expect("the binary runs"))
    }

    fn call(&self, arguments: &Value, flags: &[&str]) -> Finished {
        self.tool(&[&["skill", "call", "reaching", &arguments.to_string()], flags].concat())
    }

    fn set_secret(&self, header: &str) {
        let arguments = [
            "skill",
            "secret",
            "set",
            "tickets_token",
            "--host",
            "tickets.example.org",
            "--header",
            header,
        ];
        let mut command = self.home.tool(self.root.path(), &arguments);
        let mut setting = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = setting.stdin.take().expect("it is piped");
        writeln!(stdin, "{SECRET}").expect("it reads");
        drop(stdin);
        let set = finish(setting.wait_with_output().expect("it ends")).expect(0);
        assert_eq!(set.stdout, "Set tickets_token for tickets.example.org.\n");
    }

    /// Files below the home that hold the secret.
    fn files_with_secret(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut todo = vec![self.home.path().to_owned()];
        while let Some(place) = todo.pop() {
            for entry in std::fs::read_dir(&place).expect("it is readable") {
                let path = entry.expect("it is readable").path();
                if path.is_dir() {
                    todo.push(path);
                } else if std::fs::read(&path).is_ok_and(|bytes| holds_secret(&bytes)) {
                    let name = path.strip_prefix(self.home.path()).expect("it lies below");
                    found.push(name.display().to_string());
                }
            }
        }
        found
    }
}

fn holds_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

#[test]
fn a_skill_reads_a_ticket_with_a_secret_that_it_never_sees() {
    let world = World::new();
    world.set_secret("authorization");
    let asked = json!({
        "do": "GET",
        "url": "https://tickets.example.org/issues/7?token=query-secret",
        "headers": ["authorization: Bearer {{secret:tickets_token}}", "accept: text/plain"],
        "key": backwards(SECRET),
    });
    let called = world.call(&asked, &["--receipt"]).expect(0);
    let received = world.requests.recv().expect("a request came");
    holds(
        &received,
        &[
            "GET /issues/7?token=query-secret HTTP/1.1",
            &format!("authorization: Bearer {SECRET}\r\n"),
        ],
    );
    holds(
        &called.stdout,
        &[
            "200\n",
            "x-echo: [secret:tickets_token]",
            "authorization: Bearer [secret:tickets_token]",
            "not in memory",
        ],
    );
    let receipt: Value = serde_json::from_str(&called.stderr).expect("the receipt is JSON");
    let bytes = received.len();
    assert_eq!(
        receipt["requests"],
        json!([{"host": "tickets.example.org", "method": "GET", "status": 200, "bytes_sent": 0, "bytes_received": bytes}])
    );
    assert!(!called.stdout.contains(SECRET) && !called.stderr.contains(SECRET));
    world.tool(&["service", "stop"]).expect(0);
    assert_eq!(world.files_with_secret(), ["secrets.json"]);
    let listed = world.tool(&["skill", "secret", "list"]).expect(0);
    assert_eq!(listed.stdout, "tickets_token  tickets.example.org  authorization\n");
    world.tool(&["skill", "secret", "remove", "tickets_token"]).expect(0);
    assert_eq!(world.files_with_secret(), [""; 0]);
    holds(
        &world.call(&asked, &[]).expect(1).stderr,
        &["the secret `tickets_token` is not set", "tool skill secret set"],
    );
}

#[test]
fn a_skill_reaches_no_host_method_or_address_that_was_not_granted() {
    let world = World::new();
    let get = |url: &str| json!({"do": "GET", "url": url});
    let refused = |arguments: &Value, flags: &[&str], parts: &[&str]| {
        let called = world.call(arguments, flags);
        assert_ne!(called.code, 0, "{}", called.stdout);
        holds(&called.stderr, parts);
    };
    let ticket = get("https://tickets.example.org/");
    holds(&world.call(&ticket, &[]).expect(0).stdout, &["200\n"]);
    refused(
        &ticket,
        &["--deny", "http:*"],
        &["`http:tickets.example.org`", "denied by name"],
    );
    refused(
        &ticket,
        &["--deny", "http:tickets.example.org"],
        &["`http:tickets.example.org`"],
    );
    refused(
        &get("https://elsewhere.example.org/"),
        &[],
        &[
            "`http:elsewhere.example.org`",
            "only what the skill's own description declares",
        ],
    );
    // A redirect is an answer like others; the guest would have to ask for the other host itself.
    let redirected = world.call(&get("https://tickets.example.org/redirect"), &[]).expect(0);
    holds(
        &redirected.stdout,
        &["302\n", "location: https://elsewhere.example.org/"],
    );
    // Granted and not named by the user: no private address, and no plain HTTP.
    refused(&get("https://localhost/"), &[], &["DestinationIpProhibited"]);
    refused(&get("https://127.0.0.1/"), &[], &["DestinationIpProhibited"]);
    refused(&get("http://plain.example.org/"), &[], &["HttpRequestDenied"]);

    let post = |host: &str| json!({"do": "POST", "url": format!("https://{host}/new"), "value": "a ticket"});
    refused(&post("tickets.example.org"), &[], &["`http-write:tickets.example.org`"]);
    let allow = ["--allow", "http-write:write.example.org"];
    refused(
        &post("write.example.org"),
        &[],
        &["`http-write:write.example.org`", &allow.join(" ")],
    );
    let posted = world.call(&post("write.example.org"), &allow).expect(0);
    holds(&posted.stdout, &["200\n", "POST /new HTTP/1.1", "a ticket"]);
    let methods: Vec<String> = world
        .requests
        .try_iter()
        .map(|request| request[..4].to_owned())
        .collect();
    assert_eq!(methods, ["GET ", "GET ", "POST"], "nothing else was sent");
}

#[test]
fn a_secret_goes_to_its_host_in_its_header_alone() {
    let world = World::new();
    world.set_secret("x-api-key");
    let get = |header: &str| json!({"do": "GET", "url": "https://tickets.example.org/", "headers": [header]});
    let called = world
        .call(&get("authorization: {{secret:tickets_token}}"), &[])
        .expect(1);
    holds(
        &called.stderr,
        &["the secret `tickets_token` goes to tickets.example.org in the header `x-api-key` alone"],
    );
    assert!(world.requests.try_recv().is_err(), "nothing was sent");
    world.call(&get("x-api-key: {{secret:tickets_token}}"), &[]).expect(0);
    holds(
        &world.requests.recv().expect("a request came"),
        &[&format!("x-api-key: {SECRET}\r\n")],
    );
}

#[test]
fn settings_and_kept_values_belong_to_one_skill_and_one_repository() {
    let world = World::new();
    let said = |arguments: &Value| world.call(arguments, &[]).expect(0).stdout;
    assert_eq!(said(&json!({"do": "config", "key": "project"})), "CORE\n");
    assert_eq!(said(&json!({"do": "settings"})), "limit=5 project=CORE\n");
    assert_eq!(said(&json!({"do": "config", "key": "other"})), "none\n");

    let kept = json!({"do": "kept", "key": "seen"});
    assert_eq!(said(&kept), "none\n");
    assert_eq!(said(&json!({"do": "keep", "key": "seen", "value": "7"})), "kept\n");
    assert_eq!(said(&kept), "7\n", "it lasts");
    let other = folder(&[("b.txt", "x\n")]);
    let elsewhere = |root: &Path| {
        let arguments = ["skill", "call", "reaching", &kept.to_string()].map(str::to_owned);
        world
            .home
            .run(root, &arguments.each_ref().map(String::as_str))
            .expect(0)
            .stdout
    };
    assert_eq!(elsewhere(other.path()), "none\n", "another repository");
    let cleared = world.tool(&["skill", "store", "clear", "reaching"]).expect(0);
    assert_eq!(cleared.stdout, "Cleared the store of reaching.\n");
    assert_eq!(said(&json!({"do": "keys"})), "\n");
    said(&json!({"do": "keep", "key": "again", "value": "8"}));
    world.tool(&["skill", "remove", "reaching"]).expect(0);
    world
        .tool(&[
            "skill",
            "add",
            text(&guest("reaching")),
            "--yes",
            "--allow-effects",
            EFFECTS,
        ])
        .expect(0);
    assert_eq!(said(&json!({"do": "keys"})), "\n", "they go with the skill");
}
