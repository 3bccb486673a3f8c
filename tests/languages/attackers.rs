//! A team's hostile skill gets no further in Python or JavaScript than in Rust: the engine's table of attacks, made by the
//! attackers of `tests/fixtures/skills/hostile`. `doctor --sandbox` makes the same by the one in Rust.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use tool_proof::ProbeOutcome;
use tool_proof::attacks::{ATTACKS, Attack};

use super::{LANGUAGES, embedded};
use crate::support::{fixture_path, guest};

/// Attacks that JavaScript has no words for: it starts nothing; a socket is where connecting begins, and it asks for that
/// by `make_tcp_socket`; and componentize-js 0.23.0 cannot take the handle of a network, which resolving a name begins with.
const WORDLESS: [&str; 5] = ["start_process", "start_thread", "connect", "listen", "resolve"];

/// Attempts that every language must have been refused, whatever else the table holds, in the words of the promises.
const PROMISED: [(&str, &[&str]); 13] = [
    (
        "a hidden file",
        &[
            "read_hidden_file",
            "read_hidden_by_link",
            "list_hidden",
            "read_all_hidden",
        ],
    ),
    (
        "a protected path",
        &["propose_protected", "propose_hook", "propose_agent_file"],
    ),
    ("the network", &["make_tcp_socket", "make_udp_socket"]),
    (
        "another server",
        &[
            "request_other_host",
            "request_other_port",
            "post_to_reader",
            "open_tunnel",
        ],
    ),
    (
        "the value of a secret",
        &["echo_secret", "encode_secret", "secret_to_other_host", "other_secret"],
    ),
    (
        "the settings of others",
        &["settings_of_other_skill", "settings_of_provider", "settings_denied"],
    ),
    (
        "the store of others",
        &["store_of_other_skill", "key_as_path", "fill_store"],
    ),
    (
        "the environment",
        &["read_environment", "read_arguments", "read_input", "read_proc"],
    ),
    (
        "another skill's grants",
        &["write_ungranted", "delete_ungranted", "read_ungranted"],
    ),
    (
        "more memory",
        &["use_linear_memory", "use_tables", "use_instances", "use_handles"],
    ),
    (
        "more time",
        &[
            "spin",
            "spin_in_host_calls",
            "sleep",
            "sleep_for_ever",
            "wait_in_stream",
        ],
    ),
    (
        "more output",
        &["flood_answer", "flood_cursor", "flood_log", "flood_stdout"],
    ),
    (
        "more staged bytes",
        &["stage_bytes", "stage_again", "stage_hole", "stage_size", "stage_files"],
    ),
];

/// The attacker of a language.
fn attacker(language: &str) -> PathBuf {
    match language {
        "rust" => guest("hostile"),
        language => fixture_path("skills").join(format!("hostile_{language}.wasm")),
    }
}

fn has_words(language: &str, attack: &Attack) -> bool {
    language != "javascript" || !WORDLESS.contains(&attack.name)
}

/// Makes every attack by the attacker of a language, some at a time; what came of each that was not held.
fn lost(language: &str) -> BTreeMap<&'static str, String> {
    let hostile = embedded("hostile", &attacker(language));
    let todo = Mutex::new(ATTACKS.iter().filter(|attack| has_words(language, attack)));
    let lost = Mutex::new(BTreeMap::new());
    let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(attack) = next() {
                    let told = match attack.make(hostile, &CancellationToken::new()) {
                        ProbeOutcome::Held(_) => continue,
                        ProbeOutcome::GotOut(told) => format!("got out: {told}"),
                        ProbeOutcome::Odd(told) => format!("odd: {told}"),
                        ProbeOutcome::NotAvailable(told) => format!("not made: {told}"),
                    };
                    lost.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(attack.name, told);
                }
            });
        }
    });
    lost.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn every_attack_is_held_in_rust() {
    assert_eq!(lost("rust"), BTreeMap::new());
}

#[test]
fn every_attack_is_held_in_python() {
    assert_eq!(lost("python"), BTreeMap::new());
}

#[test]
fn every_attack_is_held_in_javascript() {
    assert_eq!(lost("javascript"), BTreeMap::new());
}

#[test]
fn what_was_promised_is_attacked_in_every_language() {
    for (promise, names) in PROMISED {
        for name in names {
            let attack = ATTACKS.iter().find(|attack| attack.name == *name);
            let attack = attack.unwrap_or_else(|| panic!("{promise}: there is no attack `{name}`"));
            for language in LANGUAGES {
                assert!(has_words(language, attack), "{promise}: {name} in {language}");
            }
        }
    }
}
