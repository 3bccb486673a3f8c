//! Many sessions at once, and many more readers that come, go and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tool_model_server::{Round, Script, ScriptedCall, ServerStep};

use super::{count, images, kibibytes};
use crate::conformance::world::{Wire, World};
use crate::support::{Dice, full, say, seed, until};

/// Size of one run of this test.
#[derive(Clone, Copy)]
struct Size {
    sessions: usize,
    calls: usize,
    readers: usize,
}

/// Memory that a daemon may ever have had.
const MEMORY_KIB_MAX: u64 = 400 * 1024;

/// Processors at most that have a copy of a component each.
const PROCESSORS_MAX: usize = 4;

/// Longest time in which a busy daemon answers a plain question. It is some milliseconds where a core is free; here it
/// shares two with the model, five hundred readers and whatever else the machine does: only a daemon that is stuck
/// takes longer than this.
const ANSWER_MAX: Duration = Duration::from_secs(20);

fn files() -> Vec<(String, String)> {
    (0..20)
        .map(|file| {
            let text = format!("def word{file}(cart):\n    return cart * {file}\n\n\n");
            (format!("shop/f{file}.py"), text.repeat(10))
        })
        .collect()
}

/// A model that makes so many calls, two at a time, thinks aloud meanwhile, and answers in pieces.
fn script(calls: usize) -> Script {
    let call = |number: usize| match number % 2 {
        0 => ScriptedCall::new("read_file", json!({"path": format!("shop/f{number}.py")})),
        _ => ScriptedCall::new("search_code", json!({"pattern": format!("word{number}\\b")})),
    };
    let numbers: Vec<usize> = (0..calls).collect();
    let mut rounds: Vec<Round> = numbers
        .chunks(2)
        .map(|pair| {
            let words = format!("Looking at {} of {calls}. ", pair[0]);
            let calls = pair.iter().copied().map(call).collect();
            Round::new([
                ServerStep::Text(words),
                ServerStep::DelayMs(10),
                ServerStep::ToolCalls(calls),
            ])
        })
        .collect();
    let mut end = Vec::new();
    for piece in 0..10 {
        end.extend([ServerStep::Text(format!("Piece {piece}. ")), ServerStep::DelayMs(8)]);
    }
    rounds.push(Round::new(end));
    Script {
        per_conversation: true,
        ..Script::new(rounds)
    }
}

/// As many open files as the test's own ends of all connections need.
fn allow_open_files() {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(8_192, |most| most.min(8_192));
    let raised = Rlimit {
        current: now.current.map(|current| current.max(wanted)),
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("it is below the maximum");
}

#[expect(clippy::disallowed_methods, reason = "the tests are a client")]
fn client() -> reqwest::Client {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    builder.build().expect("a client")
}

/// The events of a stream, each with its number and its data.
type Events = Vec<(u64, String)>;

/// Takes the whole frames out of what has been received.
fn frames(received: &mut Vec<u8>) -> Events {
    let mut events = Events::new();
    while let Some(end) = received.windows(2).position(|bytes| bytes == b"\n\n") {
        let frame: Vec<u8> = received.drain(..end + 2).collect();
        let frame = String::from_utf8(frame).expect("UTF-8");
        let number = frame.lines().find_map(|line| line.strip_prefix("id: "));
        let data = frame.lines().find_map(|line| line.strip_prefix("data: "));
        if let (Some(number), Some(data)) = (number, data) {
            events.push((number.parse().expect("a number"), data.to_owned()));
        }
    }
    events
}

fn is_end(data: &str) -> bool {
    data.starts_with(r#"{"type":"complete""#) || data.starts_with(r#"{"type":"error""#)
}

/// Follows a session to its end. With dice it leaves whenever they say so, and comes back with what it saw last.
async fn follow(client: reqwest::Client, address: Arc<str>, id: String, mut dice: Option<Dice>) -> (Events, usize) {
    let (mut seen, mut connections) = (Events::new(), 0);
    loop {
        let mut request = client.get(format!("{address}/stream?session_id={id}"));
        if let Some((number, _)) = seen.last() {
            request = request.header("last-event-id", *number);
        }
        connections += 1;
        let mut response = request.send().await.expect("the daemon answers");
        assert_eq!(response.status(), 200);
        let most = dice.as_mut().map_or(usize::MAX, |dice| match dice.below(8) {
            0 => usize::MAX,
            _ => 1 + dice.below(6) as usize,
        });
        let (mut received, mut taken) = (Vec::new(), 0);
        while taken < most {
            let Some(bytes) = response.chunk().await.expect("the stream goes on") else {
                panic!("a stream ended before its session: {:?}", seen.last());
            };
            received.extend_from_slice(&bytes);
            for event in frames(&mut received) {
                // A reader that leaves has not seen the later events.
                if taken < most {
                    taken += 1;
                    seen.push(event);
                }
            }
            if seen.last().is_some_and(|(_, data)| is_end(data)) {
                let rest = response.chunk().await.expect("it ends");
                assert!(rest.is_none() && received.is_empty(), "something came after the end");
                return (seen, connections);
            }
        }
        drop(response);
        if let Some(dice) = &mut dice {
            tokio::time::sleep(Duration::from_millis(dice.below(40))).await;
        }
    }
}

/// Asks how the daemon is, again and again. Gives how long each answer took, and the most files and threads it had.
async fn watch(client: reqwest::Client, address: Arc<str>, pid: Pid, stop: Arc<AtomicBool>) -> Watched {
    let mut watched = Watched::default();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let answer = client
            .get(format!("{address}/status"))
            .send()
            .await
            .expect("it answers");
        assert_eq!(answer.status(), 200);
        watched.answers.push(begun.elapsed());
        watched.files = watched.files.max(count(pid, "fd"));
        watched.threads = watched.threads.max(count(pid, "task"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    watched.answers.sort();
    watched
}

#[derive(Default)]
struct Watched {
    answers: Vec<Duration>,
    files: usize,
    threads: usize,
}

async fn start(client: &reqwest::Client, address: &str, body: &Value) -> String {
    let asking = client
        .post(format!("{address}/execute"))
        .header("content-type", "application/json");
    let answer = asking.body(body.to_string()).send().await;
    let answer = answer.expect("the daemon answers");
    assert_eq!(answer.status(), 200);
    let start: Value = serde_json::from_str(&answer.text().await.expect("it is whole")).expect("it is JSON");
    start["session_id"].as_str().expect("an identifier").to_owned()
}

/// Asserts that a stream of one session is whole.
fn is_whole(events: &Events, size: Size) {
    assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers rise");
    assert_eq!(events.iter().filter(|(_, data)| is_end(data)).count(), 1);
    let events: Vec<Value> = events
        .iter()
        .map(|(_, data)| serde_json::from_str(data).expect("an event is JSON"))
        .collect();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    assert_eq!(of("complete").len(), 1, "{:?}", events.last());
    assert_eq!(of("skill").len(), size.calls);
    let results = of("skill_result");
    assert_eq!(results.len(), size.calls);
    assert!(results.iter().all(|result| result["verdict"] == "ok"), "{results:?}");
    let text: String = of("token")
        .iter()
        .filter_map(|token| token["content"].as_str())
        .collect();
    let pieces: String = (0..10).map(|piece| format!("Piece {piece}. ")).collect();
    assert!(text.contains(&pieces), "{text}");
}

async fn run(world: &World, size: Size) -> String {
    let address: Arc<str> = world.home.serve_with(&[]).into();
    let pid = world.home.pid();
    let client = client();
    let body = world.body("explain", ".");
    // One session first, so that files which are made once are there.
    let first = start(&client, &address, &body).await;
    let (events, _) = follow(client.clone(), Arc::clone(&address), first, None).await;
    is_whole(&events, size);
    let before = (count(pid, "fd"), count(pid, "task"));
    let images_before = images(pid);

    let seed = seed();
    let stop = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch(client.clone(), Arc::clone(&address), pid, Arc::clone(&stop)));
    let begun = Instant::now();
    let starts = (0..size.sessions).map(|_| start(&client, &address, &body));
    let ids: Vec<String> = futures_util::future::join_all(starts).await;
    let started = begun.elapsed();
    let readers: Vec<_> = (0..size.readers)
        .map(|reader| {
            let id = ids[reader % ids.len()].clone();
            let dice = Dice(seed.wrapping_add(reader as u64));
            tokio::spawn(follow(client.clone(), Arc::clone(&address), id, Some(dice)))
        })
        .collect();
    let mut seen = Vec::new();
    let mut connections = 0;
    for reader in readers {
        let (events, count) = reader.await.expect("no event is lost");
        connections += count;
        seen.push(events);
    }
    let took = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let watched = watching.await.expect("the daemon answers meanwhile");
    let mut count_of_events = 0;
    for (number, id) in ids.iter().enumerate() {
        let (whole, _) = follow(client.clone(), Arc::clone(&address), id.clone(), None).await;
        is_whole(&whole, size);
        for events in seen.iter().skip(number).step_by(ids.len()) {
            assert_eq!(*events, whole, "seed {seed}: a reader of {id} saw something else");
            count_of_events += events.len();
        }
    }
    // A thread that has nothing to do goes after ten seconds.
    let settled = until("files and threads are given back", || {
        count(pid, "fd") <= before.0 && count(pid, "task") <= before.1
    });
    let images = images(pid);
    assert!(images <= PROCESSORS_MAX * images_before, "{images} of {images_before}");
    let status = client
        .get(format!("{address}/status"))
        .send()
        .await
        .expect("it answers");
    let status: Value = serde_json::from_str(&status.text().await.expect("it is whole")).expect("it is JSON");
    assert_eq!(status["sessions_running"], 0);
    let memory = kibibytes(pid, "VmHWM:");
    assert!(memory < MEMORY_KIB_MAX, "{memory} KiB");
    let slowest = watched.answers.last().copied().unwrap_or_default();
    assert!(slowest < ANSWER_MAX, "{slowest:?}");
    let median = watched.answers[watched.answers.len() / 2];
    format!(
        "{} sessions with {} calls, {} readers on {connections} connections, {count_of_events} events, in {took:.1?} \
         (all started after {started:.1?}); GET /status {median:.0?} (median), {slowest:.0?} (longest); {} MiB at \
         most; files {} -> {} -> {}, threads {} -> {} -> {} ({settled:.0?} after the end)",
        size.sessions,
        size.calls,
        size.readers,
        memory / 1024,
        before.0,
        watched.files,
        count(pid, "fd"),
        before.1,
        watched.threads,
        count(pid, "task"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_and_more_readers_lose_and_double_nothing() {
    let size = if full() {
        Size {
            sessions: 200,
            calls: 20,
            readers: 500,
        }
    } else {
        Size {
            sessions: 24,
            calls: 5,
            readers: 60,
        }
    };
    allow_open_files();
    let files = files();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let world = World::on(Wire::Local, &files, script(size.calls));
    say(&run(&world, size).await);
}
