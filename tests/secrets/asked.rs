//! Questions that a client asks for by name (`ask`) in place of a denial, with the real skills: what they show, how long a
//! yes lasts, and what becomes of a question whose client, session or daemon goes away.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::Round;

use super::taint::with_others;
use super::{call, read, text};
use crate::providers::scripted;
use crate::support::{Home, git, holds, until};

/// A program that starts sessions and answers their questions.
struct Client {
    http: reqwest::Client,
    address: String,
    token: String,
}

/// A session, and the stream of it that is open.
struct FollowedSession {
    id: String,
    secret: String,
    response: reqwest::Response,
    seen: String,
    taken: usize,
}

impl Client {
    fn of(home: &Home) -> Self {
        Self {
            http: super::approval::client(),
            address: home.serve(),
            token: text(&home.path().join("token")).trim().to_owned(),
        }
    }

    async fn get(&self, route: &str) -> (u16, Value) {
        let response = self.http.get(format!("{}{route}", self.address)).send().await;
        let response = response.expect("an answer");
        let status = response.status().as_u16();
        let body = response.bytes().await.expect("a body");
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn post(&self, route: &str, body: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}{route}", self.address));
        super::approval::answered(request.bearer_auth(&self.token), body).await
    }

    /// An explanation that may ask about these effects.
    async fn explain(&self, repository: &TempDir, ask: &[&str]) -> FollowedSession {
        let body = json!({"operation": "explain", "target": ".", "repo_path": repository.path(), "ask": ask,
            "selection": {"exclude": ["vendor"]}});
        self.start("/execute", &body).await
    }

    async fn start(&self, route: &str, body: &Value) -> FollowedSession {
        let (status, start) = self.post(route, body).await;
        assert_eq!(status, 200, "{start}");
        let field = |name: &str| start[name].as_str().expect("it is there").to_owned();
        let (id, secret) = (field("session_id"), field("approval_secret"));
        FollowedSession {
            response: self.stream(&id, None).await,
            id,
            secret,
            seen: String::new(),
            taken: 0,
        }
    }

    async fn stream(&self, id: &str, after: Option<u64>) -> reqwest::Response {
        let mut request = self.http.get(format!("{}/stream?session_id={id}", self.address));
        if let Some(after) = after {
            request = request.header("last-event-id", after.to_string());
        }
        request.send().await.expect("a stream")
    }

    /// Events of the whole stream after a number.
    async fn replay(&self, id: &str, after: Option<u64>) -> Vec<Value> {
        let text = self.stream(id, after).await.text().await.expect("it ends");
        events(&text).map(|(_, event)| event).collect()
    }

    async fn answer(&self, session: &FollowedSession, asked: &Value, approve: bool, scope: &str) -> u16 {
        let body = json!({"secret": session.secret, "approve": approve, "scope": scope});
        let id = asked["id"].as_str().expect("an id");
        self.post(&format!("/approvals/{id}"), &body).await.0
    }
}

/// The whole events of a stream, with their numbers.
fn events(seen: &str) -> impl Iterator<Item = (u64, Value)> {
    let whole = seen.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    let frames = whole.split("\n\n").filter_map(|frame| {
        let (id, data) = frame.strip_prefix("id: ")?.split_once("\ndata: ")?;
        Some((id.parse().ok()?, serde_json::from_str(data).ok()?))
    });
    frames.collect::<Vec<_>>().into_iter()
}

impl FollowedSession {
    /// The next event of this type, with its number. Fails where the session ends before.
    async fn next(&mut self, kind: &str) -> (u64, Value) {
        loop {
            if let Some((at, found)) = events(&self.seen)
                .enumerate()
                .skip(self.taken)
                .find(|(_, (_, event))| event["type"] == kind)
            {
                self.taken = at + 1;
                return found;
            }
            let piece = self.response.chunk().await.expect("the stream goes on");
            let piece = piece.unwrap_or_else(|| panic!("no {kind} in {}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    async fn asked(&mut self) -> Value {
        self.next("approval").await.1
    }

    /// The events of the whole session, once it has ended.
    async fn ended(&mut self) -> Vec<Value> {
        while let Some(piece) = self.response.chunk().await.expect("the stream goes on") {
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
        events(&self.seen).map(|(_, event)| event).collect()
    }
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

fn write(path: &str) -> Round {
    call("write_file", json!({"path": path, "content": format!("{path} = 1\n")}))
}

fn commit(message: &str) -> Round {
    call("git_commit", json!({"message": message}))
}

fn verdicts(events: &[Value]) -> Vec<&str> {
    let results = of_type(events, "skill_result");
    results
        .iter()
        .map(|event| event["verdict"].as_str().expect("text"))
        .collect()
}

#[tokio::test]
async fn an_explanation_asks_in_place_of_a_denial_and_a_yes_lasts_as_long_as_it_says() {
    let repository = with_others();
    let root = repository.path();
    let rounds = [write("a.py"), write("b.py"), commit("Add both"), Round::text("Done.")];
    let (_server, home) = scripted(rounds);
    let client = Client::of(&home);
    let mut session = client.explain(&repository, &["write-repository", "commit-git"]).await;
    let asked = session.asked().await;
    assert_eq!(
        (&asked["effect"], &asked["title"], &asked["scopes"]),
        (
            &json!("write-repository"),
            &json!("Change `a.py`"),
            &json!(["call", "session"])
        )
    );
    holds(
        asked["detail"].as_str().expect("text"),
        &["+++ b/a.py\n", "+a.py = 1\n"],
    );
    assert!(!root.join("a.py").exists(), "nothing happens before the answer");
    let (_, whole) = client
        .get(&format!("/approvals/{}", asked["id"].as_str().expect("an id")))
        .await;
    assert_eq!(
        (&whole["detail"], &whole["scopes"]),
        (&asked["detail"], &asked["scopes"])
    );
    assert_eq!(client.answer(&session, &asked, true, "session").await, 204);
    let asked = session.asked().await;
    assert_eq!(asked["effect"], "commit-git", "the second file is not asked about");
    holds(
        asked["detail"].as_str().expect("text"),
        &["    Add both\n", "+a.py = 1\n", "+b.py = 1\n"],
    );
    assert_eq!(client.answer(&session, &asked, true, "call").await, 204);
    let seen = session.ended().await;
    let calls: Vec<&Value> = of_type(&seen, "skill").iter().map(|event| &event["call_id"]).collect();
    let questions = of_type(&seen, "approval");
    assert_eq!(
        [&questions[0]["call_id"], &questions[1]["call_id"]],
        [calls[0], calls[2]]
    );
    let answers: Vec<Value> = of_type(&seen, "answered")
        .iter()
        .map(|event| json!([event["answer"], event["scope"]]))
        .collect();
    assert_eq!(answers, [json!(["approved", "session"]), json!(["approved", "call"])]);
    assert_eq!(git(root, &["show", "HEAD:b.py"]), "b.py = 1\n");
    holds(&super::report(root), &["approved for the session", "approved\n"]);

    // Nothing of it lasts: a turn names what it is asked about anew.
    let (_server, home) = scripted([
        write("c.py"),
        Round::text("No."),
        write("d.py"),
        write("d.py"),
        Round::text("Yes."),
    ]);
    let client = Client::of(&home);
    let mut session = client.explain(&repository, &[]).await;
    let seen = session.ended().await;
    assert_eq!((verdicts(&seen), of_type(&seen, "approval").len()), (vec!["denied"], 0));
    let turn = json!({"message": "and now?", "ask": ["write-repository"]});
    let mut turn = client.start(&format!("/sessions/{}/turns", session.id), &turn).await;
    let asked = turn.asked().await;
    assert_eq!(asked["title"], "Change `d.py`");
    client.answer(&turn, &asked, true, "session").await;
    turn.ended().await;
    assert!(root.join("d.py").exists() && !root.join("c.py").exists());
}

#[tokio::test]
async fn a_yes_given_before_text_from_outside_came_does_not_count_after_it() {
    let repository = with_others();
    let rounds = [
        write("a.py"),
        read("vendor/lib.py"),
        write("b.py"),
        commit("Add both"),
        commit("Again"),
        Round::text("Done."),
    ];
    let (_server, home) = scripted(rounds);
    let client = Client::of(&home);
    let mut session = client.explain(&repository, &["write-repository", "commit-git"]).await;
    let asked = session.asked().await;
    assert_eq!(asked["title"], "Change `a.py`");
    client.answer(&session, &asked, true, "session").await;
    let asked = session.asked().await;
    holds(
        asked["title"].as_str().expect("text"),
        &["Change `b.py` [tainted: ", "`vendor/`"],
    );
    client.answer(&session, &asked, true, "session").await;
    let asked = session.asked().await;
    assert_eq!(
        (&asked["effect"], &asked["scopes"]),
        (&json!("commit-git"), &json!(["call"]))
    );
    assert_eq!(
        client.answer(&session, &asked, true, "session").await,
        400,
        "it would last"
    );
    assert_eq!(client.answer(&session, &asked, true, "call").await, 204);
    let seen = session.ended().await;
    assert_eq!(verdicts(&seen)[..4], ["ok", "ok", "ok", "ok"]);
}

#[tokio::test]
async fn after_two_noes_to_an_effect_no_third_question_comes() {
    let repository = with_others();
    let mut rounds: Vec<Round> = ["a.py", "b.py", "c.py", "d.py"].map(write).into();
    rounds.push(Round::text("Then not."));
    let (server, home) = scripted(rounds);
    let client = Client::of(&home);
    let mut session = client.explain(&repository, &["write-repository"]).await;
    for _ in 0..2 {
        let asked = session.asked().await;
        assert_eq!(client.answer(&session, &asked, false, "call").await, 204);
    }
    let seen = session.ended().await;
    assert_eq!(
        (verdicts(&seen), of_type(&seen, "approval").len()),
        (vec!["denied"; 4], 2)
    );
    let told = server.requests()[4].body["messages"].to_string();
    holds(
        &told,
        &["the user said no to `write-repository` twice: go on without it"],
    );
    assert!(!repository.path().join("d.py").exists());
}

#[tokio::test]
async fn only_the_holder_of_token_and_secret_is_asked_and_answers() {
    let repository = with_others();
    let (server, home) = scripted([write("a.py"), Round::text("Done.")]);
    let client = Client::of(&home);
    let body =
        json!({"operation": "explain", "target": ".", "repo_path": repository.path(), "ask": ["write-repository"]});
    let bare = client.http.post(format!("{}/execute", client.address));
    let (status, refused) = super::approval::answered(bare, &body).await;
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("forbidden")));
    for (ask, code, message) in [
        (json!(["read-git"]), 400, "`ask` cannot name `read-git`"),
        (json!(["everything"]), 400, "Unknown effect `everything`"),
        (json!("write-repository"), 400, "expected a sequence"),
    ] {
        let mut body = body.clone();
        body["ask"] = ask;
        let (status, refused) = client.post("/execute", &body).await;
        assert_eq!(status, code, "{refused}");
        holds(refused["error"]["message"].as_str().expect("text"), &[message]);
    }
    let mut session = client.start("/execute", &body).await;
    let asked = session.asked().await;
    let id = asked["id"].as_str().expect("an id");
    for (secret, status) in [("guess", 403), ("", 403), (&*client.token, 403)] {
        let body = json!({"secret": secret, "approve": true, "scope": "session"});
        assert_eq!(client.post(&format!("/approvals/{id}"), &body).await.0, status);
    }
    let wrong = json!({"secret": session.secret, "approve": true, "scope": "always"});
    assert_eq!(client.post(&format!("/approvals/{id}"), &wrong).await.0, 400);
    assert_eq!(
        client.answer(&session, &json!({"id": "unknown"}), true, "call").await,
        404
    );
    // Of two that answer at once one counts.
    let (first, second) = tokio::join!(
        client.answer(&session, &asked, true, "call"),
        client.answer(&session, &asked, false, "call")
    );
    assert!(matches!((first, second), (204, 404) | (404, 204)), "{first} {second}");
    let seen = session.ended().await;
    assert_eq!(repository.path().join("a.py").exists(), first == 204);
    assert_eq!(of_type(&seen, "answered").len(), 1);
    assert_eq!(
        client.answer(&session, &asked, true, "call").await,
        404,
        "the session has ended"
    );
    let sent: String = server
        .requests()
        .iter()
        .map(|request| request.body.to_string())
        .collect();
    assert!(!sent.contains(&session.secret) && !session.seen.contains(&session.secret));
}

#[tokio::test]
async fn a_question_outlives_its_stream_and_is_not_asked_again_once_it_is_answered() {
    let repository = with_others();
    let (_server, home) = scripted([write("a.py"), write("b.py"), Round::text("Done.")]);
    let client = Client::of(&home);
    let mut session = client.explain(&repository, &["write-repository"]).await;
    let (number, asked) = session.next("approval").await;
    // The client goes away, comes back, and is asked the same.
    for after in [None, Some(number - 1)] {
        session.response = client.stream(&session.id, after).await;
        (session.seen, session.taken) = (String::new(), 0);
        assert_eq!(session.next("approval").await, (number, asked.clone()));
    }
    client.answer(&session, &asked, true, "call").await;
    let (_, second) = session.next("approval").await;
    assert_ne!(second["id"], asked["id"]);
    let mut late = FollowedSession {
        id: session.id.clone(),
        secret: session.secret.clone(),
        response: client.stream(&session.id, Some(number - 1)).await,
        seen: String::new(),
        taken: 0,
    };
    assert_eq!(late.asked().await, second, "the first one is answered");
    assert_eq!(events(&late.seen).next().expect("there is one").1["type"], "answered");
    client.answer(&session, &second, false, "call").await;
    session.ended().await;
    let replayed = client.replay(&session.id, None).await;
    assert_eq!(
        (
            of_type(&replayed, "approval").len(),
            of_type(&replayed, "answered").len()
        ),
        (0, 2)
    );
}

#[tokio::test]
async fn the_end_of_a_session_closes_its_question() {
    let named = json!({"operation": "explain", "ask": ["write-repository"]});
    let interactive = json!({"operation": "refactor", "interactive": true, "policy": {"ask_before_write": true}});
    for (attached, more) in [
        (false, &named),
        (true, &named),
        (false, &interactive),
        (true, &interactive),
    ] {
        let repository = with_others();
        let (_server, home) = scripted([write("a.py"), Round::text("Done.")]);
        let client = Client::of(&home);
        let mut body = json!({"target": "add a", "repo_path": repository.path(), "attached": attached});
        body.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        let mut session = client.start("/execute", &body).await;
        let asked = session.asked().await;
        if attached {
            // The client of an attached session goes away.
            let other = client.http.get(format!("{}/status", client.address)).send().await;
            session.response = other.expect("an answer");
        } else {
            let cancelled = client
                .http
                .delete(format!("{}/sessions/{}", client.address, session.id));
            let cancelled = cancelled.bearer_auth(&client.token).send().await.expect("an answer");
            assert_eq!(cancelled.status().as_u16(), 202);
        }
        tokio::time::timeout(Duration::from_secs(30), async {
            while client.get(&format!("/results/{}", session.id)).await.1["status"] == "running" {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("it ends");
        let result = client.get(&format!("/results/{}", session.id)).await.1;
        assert_eq!(client.answer(&session, &asked, true, "call").await, 404);
        assert!(!repository.path().join("a.py").exists(), "{result}");
        let replayed = client.replay(&session.id, None).await;
        assert_eq!(of_type(&replayed, "approval").len(), 0);
        assert_eq!(of_type(&replayed, "answered").len(), 1, "{replayed:?}");
    }
}

#[tokio::test]
async fn a_daemon_that_dies_leaves_no_open_question() {
    let repository = with_others();
    let (_server, home) = scripted([write("a.py"), Round::text("Done.")]);
    let client = Client::of(&home);
    let mut session = client.explain(&repository, &["write-repository"]).await;
    let asked = session.asked().await;
    let journal = home.path().join(format!("sessions/{}/journal.jsonl", session.id));
    // What the daemon has not written yet is lost with it.
    until("the question is on the disk", || {
        text(&journal).contains("\"approval\"")
    });
    let pid = home.pid();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    until("the daemon is gone", || !crate::support::is_alive(pid));
    let client = Client::of(&home);
    assert_eq!(client.answer(&session, &asked, true, "call").await, 404);
    let replayed = client.replay(&session.id, None).await;
    assert_eq!(of_type(&replayed, "approval").len(), 0);
    assert_eq!(of_type(&replayed, "answered")[0]["answer"], "cancelled");
    assert_eq!(replayed.last().expect("an end")["type"], "error");
    assert!(!repository.path().join("a.py").exists());
}

#[tokio::test]
async fn over_http_no_text_names_a_command_or_a_flag_of_the_terminal() {
    // A diff begins with `diff --git`.
    let named = regex::Regex::new("`tool |--[a-fh-z]").expect("a constant");
    let cases = [
        (
            "refactor",
            json!({}),
            vec![write("a.py"), commit("Add"), Round::text("Done.")],
            "error",
        ),
        (
            "refactor",
            json!({"preview": true}),
            vec![write("a.py"), Round::text("Done.")],
            "complete",
        ),
        (
            "explain",
            json!({}),
            vec![write("a.py"), write(".github/a.yml"), Round::text("No.")],
            "complete",
        ),
    ];
    for (operation, more, rounds, end) in cases {
        let repository = with_others();
        let (_server, home) = scripted(rounds);
        let client = Client::of(&home);
        let mut body = json!({"operation": operation, "target": "add a", "repo_path": repository.path()});
        body["verification"] = json!("optional");
        body.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        let mut session = client.start("/execute", &body).await;
        let seen = session.ended().await;
        assert_eq!(seen.last().expect("an end")["type"], end, "{seen:?}");
        assert!(!named.is_match(&session.seen), "{}", session.seen);
        let result = client.get(&format!("/results/{}", session.id)).await.1.to_string();
        assert!(!named.is_match(&result), "{result}");
        if operation == "refactor" {
            let text: String = of_type(&seen, "token")
                .iter()
                .filter_map(|event| event["content"].as_str())
                .collect();
            holds(
                &text,
                &["of 1 file: `a.py` (new, +1)."][..usize::from(more["preview"] == true)],
            );
            let change = of_type(&seen, "change")[0];
            let written = of_type(&seen, "skill")
                .into_iter()
                .find(|call| call["name"] == "write_file");
            assert_eq!(change["call_id"], written.expect("the call")["call_id"]);
            assert_eq!(
                (
                    &change["texts"][0]["path"],
                    &change["texts"][0]["new_text"],
                    change["texts"][0].get("old_text")
                ),
                (&json!("a.py"), &json!("a.py = 1\n"), None)
            );
        }
    }
}
