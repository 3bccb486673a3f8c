//! The engine's end of a helper, with threads that misbehave as one that was taken over could.

use std::io::Write;
use std::os::unix::net::UnixStream;

use super::*;

fn soon() -> HelperDeadline {
    HelperDeadline::within(Duration::from_secs(20), &CancellationToken::new())
}

/// A helper whose words are these bytes, after which it hangs up.
fn saying(bytes: Vec<u8>) -> Helper {
    let (own, mut theirs) = UnixStream::pair().expect("sockets can be made");
    own.set_nonblocking(true).expect("sockets can be set");
    std::thread::spawn(move || theirs.write_all(&bytes));
    Helper {
        stream: own,
        child: None,
        landlock: false,
    }
}

fn frame(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(head.len()).expect("short").to_le_bytes().to_vec();
    bytes.extend(u32::try_from(body.len()).expect("short").to_le_bytes());
    bytes.extend(head.as_bytes());
    bytes.extend(body);
    bytes
}

fn heard(bytes: Vec<u8>) -> Result<(u32, Vec<u8>), String> {
    saying(bytes).hear(3, &soon()).map_err(|error| error.to_string())
}

#[test]
fn an_answer_is_taken_whole_or_not_at_all() {
    assert_eq!(heard(frame("7", b"abc")), Ok((7, b"abc".to_vec())));
    let too_long = "the helper's answer makes no sense: it is longer than agreed";
    assert_eq!(heard(frame("7", b"abcd")), Err(too_long.to_owned()));
    // Four gigabytes are announced; nothing is reserved for them.
    assert_eq!(heard(vec![255; 8]), Err(too_long.to_owned()));
    let text = heard(frame("\"seven\"", b"")).expect_err("it is no number");
    assert!(text.starts_with("the helper's answer makes no sense"), "{text}");
    for cut in [0, 3, 8, 10] {
        let text = heard(frame("12", b"abc")[..cut].to_vec()).expect_err("it is cut short");
        assert_eq!(text, "the helper ended without an answer");
    }
}

#[test]
fn a_helper_that_says_nothing_is_given_up_at_its_time_or_at_once_when_cancelled() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let silent = move |connection: HelperConnection| {
        let _ = released.recv();
        drop(connection);
    };
    let mut helper = Helper::on_thread(silent).expect("threads can be started");
    let short = HelperDeadline::within(Duration::from_millis(30), &CancellationToken::new());
    assert!(matches!(helper.hear::<()>(0, &short), Err(HelperError::TooLate)));

    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        trigger.cancel();
    });
    // Its time would end it, too, with another error.
    let long = HelperDeadline::within(Duration::from_secs(60), &cancel);
    assert!(matches!(helper.hear::<()>(0, &long), Err(HelperError::Cancelled)));
    drop(release);
}

#[test]
fn a_program_that_does_not_offer_the_mode_has_no_helper_and_says_so() {
    let why = "this program does not offer the helper".to_owned();
    if cfg!(target_os = "linux") {
        assert_eq!(*detect_confinement(), Confinement::InProcess(why));
        assert!(!detect_confinement().is_full());
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a helper that hangs")]
fn a_helper_that_hangs_after_its_last_word_is_ended() {
    // `CONFINE_LAST_WORD_MS`: it has hung up, and does not end by itself.
    let (own, theirs) = UnixStream::pair().expect("sockets can be made");
    drop(theirs);
    let child = std::process::Command::new("/bin/sleep")
        .arg("20")
        .spawn()
        .expect("there is a program");
    let mut helper = Helper {
        stream: own,
        child: Some(child),
        landlock: false,
    };
    let started = Instant::now();
    helper.end();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}
