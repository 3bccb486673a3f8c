//! Cost of a token on its way from a model server to standard output, in counts: the journal's lines and bytes, the
//! daemon's writes, and its memory. `scripts/bench` measures seconds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rustix::process::Pid;

use crate::support::{Home, folder};

/// Pieces of an answer: enough that a test notices if memory or a write grows with each.
const TOKENS: usize = 100_000;

/// A piece of text.
const TOKEN: &str = " word";

/// One wire: the beginning of an answer, one piece of it, and its end, as they stand in a stream.
struct Wire {
    provider: &'static str,
    api: &'static str,
    path: &'static str,
    begin: &'static str,
    piece: &'static str,
    end: &'static str,
}

const CHAT: Wire = Wire {
    provider: "local",
    api: "chat",
    path: "/v1",
    begin: "",
    piece: r#"data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"some-model","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}"#,
    end: "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]",
};

const MESSAGES: Wire = Wire {
    provider: "hosted",
    api: "messages",
    path: "",
    begin: concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
        "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
    ),
    piece: concat!(
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,",
        "\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}",
    ),
    end: concat!(
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},",
        "\"usage\":{\"output_tokens\":7}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}",
    ),
};

const GENERATE_CONTENT: Wire = Wire {
    provider: "hosted",
    api: "generate-content",
    path: "",
    begin: "",
    piece: concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" word\"}],\"role\":\"model\"},\"index\":0}],",
        "\"usageMetadata\":{\"promptTokenCount\":4,\"totalTokenCount\":4},\"modelVersion\":\"some-model\"}",
    ),
    end: concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\".\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",",
        "\"index\":0}]}",
    ),
};

/// Packets in which an answer is sent.
#[derive(Clone, Copy)]
enum Packets {
    /// As much as fits into each.
    Full,
    /// Each piece in one of its own.
    Single,
}

impl Wire {
    /// A server of one answer, on a thread that ends with it; answers where it listens.
    fn serve(&'static self, packets: Packets) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            // The answer's length in bytes ends the thread; before it come questions that it has no answer to.
            for stream in listener.incoming() {
                let mut stream = stream.expect("loopback works");
                if is_post(&mut stream) {
                    return self.answer(&mut stream, packets).expect("it is read to its end");
                }
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        format!("http://{address}{}", self.path)
    }

    fn answer(&self, stream: &mut TcpStream, packets: Packets) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
        let piece = format!("{}\n\n", self.piece);
        write!(stream, "{}\n\n", self.begin)?;
        match packets {
            Packets::Full => {
                let block = piece.repeat(500);
                (0..TOKENS / 500).try_for_each(|_| stream.write_all(block.as_bytes()))?;
            }
            Packets::Single => (0..TOKENS).try_for_each(|_| stream.write_all(piece.as_bytes()))?,
        }
        write!(stream, "{}\n\n", self.end)
    }
}

/// Reads a request; true for a POST.
fn is_post(stream: &mut TcpStream) -> bool {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).expect("a request");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the whole body");
    first.starts_with("POST")
}

/// A number of a process in one of its files below `/proc`.
fn number(pid: Pid, file: &str, name: &str) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    let digits = line.split_ascii_whitespace().next().expect("a value");
    digits.parse().expect("a number")
}

fn streams(wire: &'static Wire, packets: Packets) {
    let url = wire.serve(packets);
    let home = Home::configured(&format!(
        "[providers.{}]\nenabled = true\napi = \"{}\"\nmodel = \"some-model\"\nurl = \"{url}\"\napi_key = \"a-key-that-is-long-enough\"\n",
        wire.provider, wire.api
    ));
    let repository = folder(&[("main.py", "x = 1\n"), ("README.md", "# A program\n")]);
    home.serve();
    let pid = home.pid();
    // The grammar of the file is unpacked and loaded once, which is no part of the answer.
    home.run(repository.path(), &["context", "count"]).expect(0);
    let (memory, writes) = (number(pid, "status", "VmHWM:"), number(pid, "io", "syscw:"));
    let began = Instant::now();
    let finished = home.run(repository.path(), &["explain", "."]).expect(0);
    let took_ms = usize::try_from(began.elapsed().as_millis()).expect("not that long");
    let (memory, writes) = (
        number(pid, "status", "VmHWM:") - memory,
        number(pid, "io", "syscw:") - writes,
    );
    let text = TOKEN.repeat(TOKENS);
    assert!(finished.stdout.contains(&text), "the answer is whole");
    let journal = std::fs::read_dir(home.path().join("sessions")).expect("sessions");
    let journal = journal
        .flatten()
        .next()
        .expect("one session")
        .path()
        .join("journal.jsonl");
    let journal = std::fs::read(journal).expect("its journal");
    let lines = journal.iter().filter(|&&byte| byte == b'\n').count();
    // Text is collected for 5 ms: two events in that time where the timer and a piece that is late meet.
    let lines_max = 2 * (took_ms / 5) + 50;
    assert!(
        lines <= lines_max && lines < TOKENS / 10,
        "{lines} lines in {took_ms} ms"
    );
    // The answer is there in events, as a message for the next turn, and in the opaque data of some wires.
    let bytes_max = 3 * text.len() + 300 * lines + 64 * 1024;
    assert!(journal.len() <= bytes_max, "{} bytes in {lines} lines", journal.len());
    // Each event goes to the client, and now and then to the journal; each of both wakes a thread at times.
    assert!(writes <= 8 * lines + 2_000, "{writes} writes for {lines} lines");
    // Several copies of the text, and none of what it came in: 13 to 17 MB.
    assert!(
        memory <= 16 * 1024 + 12 * text.len() / 1024,
        "{memory} KiB more at most"
    );
}

#[test]
fn a_flood_of_tokens_is_collected_and_nothing_of_its_envelopes_kept() {
    streams(&CHAT, Packets::Full);
}

#[test]
fn a_token_in_a_packet_of_its_own_costs_no_write_of_its_own() {
    streams(&CHAT, Packets::Single);
}

#[test]
fn the_other_wires_are_no_dearer() {
    streams(&MESSAGES, Packets::Full);
    streams(&GENERATE_CONTENT, Packets::Full);
}
