//! The examples of every rule, found and kept, and the promises of a session's memory. No key here was ever one: each is
//! put together when the tests run, so that nothing that watches over repositories takes it for one.

use proptest::prelude::*;

use super::examples::{RuleExample, drawn, example, expand};
use super::rules::{EnabledRules, RULES, RedactionRule, find_keys, rule_names};
use super::*;
use crate::redaction::session::REDACTION_FILES_NAMED_MAX;

const ALPHANUMERIC: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &str = "0123456789abcdef";

fn any(length: usize) -> String {
    drawn(7, length, ALPHANUMERIC)
}

fn redactor() -> Redactor {
    Redactor::new(&[], []).expect("no rule is named")
}

/// A key in armour, as tools write it.
fn armoured(kind: &str) -> String {
    let body: Vec<String> = (1..=5).map(|line| drawn(line, 64, BASE64)).collect();
    format!(
        "-----BEGIN {kind}-----\n{}\n{}==\n-----END {kind}-----\n",
        body.join("\n"),
        drawn(9, 22, BASE64)
    )
}

/// Every example of the rules, with the name of its rule.
fn examples() -> Vec<(&'static str, RuleExample)> {
    let of_rule = |rule: &'static RedactionRule| {
        let forms = rule.hit.iter().enumerate();
        forms.map(move |(at, form)| (rule.name.as_str(), example(form, at as u64 * 100 + 7)))
    };
    RULES.iter().flat_map(of_rule).collect()
}

#[test]
fn every_rule_finds_its_keys_and_nothing_around_them() {
    for (rule, RuleExample { text, keys }) in examples() {
        for frame in ["# a line\n{}\n# another", "{}"] {
            let text = frame.replace("{}", &text);
            let expected = keys.iter().fold(text.clone(), |text, key| {
                text.replace(key, &format!("[redacted:{rule}]"))
            });
            assert_eq!(mask_keys(&text), expected, "{text}");
        }
    }
}

#[test]
fn every_rule_keeps_what_only_looks_like_its_keys() {
    for rule in RULES.iter() {
        for (at, form) in rule.miss.iter().enumerate() {
            let text = format!("# a line\n{}\n", expand(form, at as u64 * 100 + 7));
            assert_eq!(mask_keys(&text), text, "{}: {form}", rule.name);
        }
    }
}

/// Frames of a key whose name is that of a service, after those by which gitleaks tries its own rules.
const NAMED_FRAMES: [&str; 15] = [
    "{i}Token=\"{s}\"",
    "{i}Token = {s}",
    "{\n    \"{i}_token\": \"{s}\"\n}",
    "{\"config.ini\": \"{i}_TOKEN={s}\\nBACKUP_ENABLED=true\"}",
    "<{i}Token>\n    {s}\n</{i}Token>",
    "{i}_token: {s}",
    "{i}_token: '{s}'",
    "string {i}Token = \"{s}\";",
    "var {i}Token string = \"{s}\"",
    "{i}Token := `{s}`",
    "${i}Token .= \"{s}\"",
    "System.setProperty(\"{i}_TOKEN\", \"{s}\")",
    "  \"{i}Token\" => \"{s}\"",
    "{i}_TOKEN ::= \"{s}\"",
    "{i}_KEY ?= \"{s}\"",
];

/// Frames of a key that is known by its form.
const FRAMES: [&str; 8] = [
    "{s}",
    "x = \"{s}\"",
    "- {s}",
    "FOO={s}",
    "see `{s}` for it",
    "print('{s}');",
    "{\"a\": \"x\\n{s}\\n\"}",
    "\u{1b}[32m{s}\u{1b}[0m",
];

/// Keys of a set that are found, and all of them.
fn recall(set: &str) -> (usize, usize, Vec<String>) {
    let (mut found, mut all, mut missed) = (0, 0, Vec::new());
    let kinds = include_str!("kinds.txt").lines().filter(|line| !line.starts_with('#'));
    for (seed, line) in kinds.enumerate() {
        let columns: Vec<&str> = line.splitn(4, " | ").collect();
        let [of, kind, name, form] = columns[..] else {
            panic!("{line}");
        };
        if of != set {
            continue;
        }
        let name = name.trim();
        let form = form.replace("\\n", "\n").replace("\\\n", "\\n");
        let texts: Vec<String> = match (form.contains('«'), name.is_empty()) {
            (true, _) => vec![form],
            (false, true) => FRAMES.map(|frame| frame.replace("{s}", &format!("«{form}»"))).to_vec(),
            (false, false) => NAMED_FRAMES
                .map(|frame| frame.replace("{i}", name).replace("{s}", &format!("«{form}»")))
                .to_vec(),
        };
        for (at, text) in texts.iter().enumerate() {
            let RuleExample { text, keys } = example(text, (seed * 100 + at) as u64);
            all += 1;
            let masked = mask_keys(&text);
            if keys.iter().all(|key| !masked.contains(key.as_str())) {
                found += 1;
            } else {
                missed.push(format!("{kind}: {text}"));
            }
        }
    }
    (found, all, missed)
}

#[test]
fn of_the_kinds_of_other_scanners_at_least_95_percent_are_found() {
    let sets = ["gitleaks", "detect-secrets", "files"].map(|set| (set, recall(set)));
    for (set, (found, all, missed)) in sets {
        assert!(
            found * 100 >= all * 95,
            "{set}: {found} of {all}\n{}",
            missed.join("\n")
        );
    }
}

#[test]
fn lines_that_are_hard_and_hold_no_secret_stay_as_they_are() {
    let lines: Vec<String> = include_str!("innocent.txt")
        .lines()
        .enumerate()
        .map(|(at, line)| expand(line, at as u64 * 100))
        .collect();
    let changed = lines.iter().filter(|line| mask_keys(line) != line.as_str());
    assert_eq!(changed.collect::<Vec<_>>(), [""; 0]);
    let whole = lines.join("\n");
    assert_eq!(mask_keys(&whole), whole);
}

#[test]
fn keys_are_found_in_escapes_json_diffs_and_numbered_lines() {
    let key = format!("ghp_{}", any(36));
    for text in [
        format!("{{\"a\": \"x\\n{key}\\n\"}}"),
        format!("+{key}"),
        format!("   12\t{key}"),
        format!("src/a.py:12: {key}"),
        format!("?next=%3D{key}&x"),
        format!("«{key}»"),
    ] {
        assert_eq!(
            mask_keys(&text),
            text.replace(&key, "[redacted:github-token]"),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_key_is_kept() {
    let integrity = drawn(21, 86, BASE64);
    let jwt_of_documents = "eyJhbGciOiJIUzI1NiJ9";
    for text in [
        // Lock files, objects of git, digests.
        &*format!("\"integrity\": \"sha512-{integrity}==\","),
        &format!("checksum = \"{}\"", drawn(22, 64, HEX)),
        &format!("    {{file = \"a.whl\", hash = \"sha256:{}\"}},", drawn(23, 64, HEX)),
        &format!("commit {}\nAuthor: A", drawn(24, 40, HEX)),
        &format!(
            "resolved = \"https://packages.example/a/-/a-1.0.0.tgz#{}\"",
            drawn(25, 40, HEX)
        ),
        &format!("index {}..{} 100644", drawn(26, 40, HEX), drawn(27, 40, HEX)),
        "id = \"123e4567-e89b-12d3-a456-426614174000\"",
        "SESSION_TOKEN = \"123e4567-e89b-12d3-a456-426614174000\"",
        // Fixtures and pictures.
        &format!("data:image/png;base64,iVBORw0KGgo{}", drawn(28, 200, BASE64)),
        &format!("FIXTURE = \"{}\"", drawn(29, 200, BASE64)),
        &format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----",
            drawn(30, 64, BASE64)
        ),
        &format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----",
            drawn(30, 64, BASE64)
        ),
        jwt_of_documents,
        // Examples of documents.
        "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "sk_test_4eC39HqLyjWDarjtT1zdp7dc",
        "export API_KEY=your_api_key_goes_here_1234",
        "api_key = \"xxxxxxxxxxxxxxxxxxxxxxxx\"",
        "ghp_0123456789abcdefghij0123456789abcdefgh",
        "glpat-XXXXXXXXXXXXXXXXXXXX",
        // Code.
        "token = request.headers.get(\"X-Token\")",
        "SECRET_KEY = os.environ[\"DJANGO_SECRET_KEY\"]",
        "csrf_token = \"csrfmiddlewaretoken\"",
        "CSRF_SECRET_LENGTH = 32\nCSRF_TOKEN_LENGTH = 2 * CSRF_SECRET_LENGTH",
        "key_salt = \"django.contrib.auth.tokens.PasswordResetTokenGenerator\"",
        "const TOKEN_HEADER: &str = \"x-amz-security-token-v4-sha256\";",
        "access_token: ${{ secrets.GITHUB_TOKEN }}",
        "token: process.env.NPM_PUBLISH_TOKEN2",
        "password = \"correct horse battery staple\"",
        "password=\"testpassword1\"",
        "self.assertEqual(token, \"some-token-with-words-2024\")",
        "if key.startswith(\"-----BEGIN PRIVATE KEY-----\"):\n    return load_pem_private_key(key, None)\n",
        "task-management-system-for-the-office and risk-based-authentication-flow-of-2024",
        "postgres://user:password@localhost/db",
        "postgres://postgres:postgres@localhost/db",
        "mysql://$USER:$PASSWORD@host/db",
        "https://{user}:{password}@example.org/",
        "http://foo:bar@example.org/",
        "http://localhost:8000/@me",
        "see https://example.org:8443/a@b and http://[::1]:80/",
        "git@github.com:owner/name.git",
        "Authorization: Bearer <token>",
        "Authorization: Bearer ${TOKEN}",
        "headers = {\"Authorization\": f\"Bearer {token}\"}",
        // Ours.
        "api_key = \"[redacted:generic-secret:1]\"",
        "postgres://app:[redacted:url-password:2]@db/x",
    ] {
        assert_eq!(mask_keys(text), text);
    }
}

#[test]
fn a_private_key_is_redacted_line_by_line_wherever_it_stands() {
    for kind in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
    ] {
        let key = armoured(kind);
        let plain = format!("a\n{key}b\n");
        let numbered: String = plain
            .lines()
            .enumerate()
            .map(|(at, line)| format!("{:>6}\t{line}\n", at + 1))
            .collect();
        let added: String = plain.lines().map(|line| format!("+{line}\n")).collect();
        let quoted: String = plain.lines().map(|line| format!("    \"{line}\\n\" +\n")).collect();
        let indented: String = plain.lines().map(|line| format!("    {line}\n")).collect();
        for text in [&plain, &numbered, &added, &quoted, &indented] {
            let masked = mask_keys(text);
            for line in key.lines().filter(|line| !line.starts_with('-')) {
                assert!(!masked.contains(line), "{line} is left in\n{masked}");
            }
            assert_eq!(masked.matches("[redacted:private-key]").count(), 6, "{masked}");
            assert_eq!(masked.lines().count(), text.lines().count(), "{masked}");
            assert!(
                masked.contains(&format!("-----BEGIN {kind}-----")) && masked.contains('b'),
                "{masked}"
            );
        }
        let windows = plain.replace('\n', "\r\n");
        let masked = mask_keys(&windows);
        for line in key.lines().filter(|line| !line.starts_with('-')) {
            assert!(!masked.contains(line), "{line} is left in\n{masked}");
        }
        assert_eq!(masked.matches("[redacted:private-key]\r\n").count(), 6, "{masked}");
        assert_eq!(
            masked.matches("\r\n").count(),
            windows.matches("\r\n").count(),
            "{masked}"
        );
        let escaped = format!("{{\"private_key\": \"{}\", \"a\": 1}}", key.replace('\n', "\\n"));
        let masked = mask_keys(&escaped);
        assert!(!masked.contains(&key.lines().nth(2).expect("a line")[..16]), "{masked}");
        assert!(masked.ends_with("\", \"a\": 1}"), "{masked}");
    }
    let with_headers = format!(
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{}\n\n{}\n-----END RSA PRIVATE KEY-----",
        drawn(1, 32, HEX).to_uppercase(),
        drawn(2, 64, BASE64)
    );
    assert_eq!(mask_keys(&with_headers).matches("[redacted:private-key]").count(), 1);
}

#[test]
fn one_key_has_one_placeholder_in_a_session_and_is_counted_once() {
    let redactor = redactor();
    let (github, url) = (format!("ghp_{}", any(36)), any(20));
    let text = format!("a = {github}\nb = redis://:{url}@host\nc = {github}\n");
    let out = redactor.text(&text, Some("a.py"));
    assert_eq!(
        out,
        "a = [redacted:github-token:1]\nb = redis://:[redacted:url-password:2]@host\nc = [redacted:github-token:1]\n"
    );
    // Known by now, it is found where no rule would look.
    assert_eq!(redactor.text(&format!("x{url}y"), None), "x[redacted:url-password:2]y");
    let told = redactor.told().expect("keys went out");
    assert_eq!(told.count, 2);
    assert_eq!(
        told.rules.into_iter().collect::<Vec<_>>(),
        [("github-token", 1), ("url-password", 1)]
    );
    assert_eq!(told.files.into_iter().collect::<Vec<_>>(), ["a.py"]);
    assert!(!format!("{redactor:?}").contains(&url));
}

#[test]
fn the_middle_of_a_private_key_is_known_once_its_file_is() {
    let redactor = redactor();
    let key = armoured("PRIVATE KEY");
    assert!(redactor.learn(&key, &|| true));
    assert_eq!(redactor.told(), None, "nothing went out yet");
    let page: Vec<&str> = key.lines().skip(2).take(2).collect();
    assert_eq!(
        redactor.text(&page.join("\n"), Some("k.py")),
        "[redacted:private-key:2]\n[redacted:private-key:3]"
    );
    assert_eq!(redactor.told().map(|told| told.count), Some(1), "two lines of one key");
}

#[test]
fn a_long_text_is_searched_like_a_short_one_and_only_while_somebody_wants_to_know() {
    // A key at every place around where one slice ends and the next begins, and a private key over it.
    let key = format!("ghp_{}", drawn(1, 36, ALPHANUMERIC));
    let armoured = armoured("PRIVATE KEY");
    for found in [key.as_str(), &armoured] {
        let alone: Vec<_> = find_keys(found, EnabledRules::all());
        assert!(!alone.is_empty());
        for at in (64 * 1024 - found.len() - 2..64 * 1024 + 2).step_by(3) {
            let text = format!("{}\n{found}\n", " ".repeat(at));
            let places: Vec<_> = find_keys(&text, EnabledRules::all());
            let ranges = |places: &[super::rules::RuleMatch], from: usize| -> Vec<_> {
                places
                    .iter()
                    .map(|place| place.range.start - from..place.range.end - from)
                    .collect()
            };
            assert_eq!(ranges(&places, at + 1), ranges(&alone, 0), "{at}");
        }
    }
    let redactor = redactor();
    let asked = std::cell::Cell::new(0);
    let twice = || {
        asked.set(asked.get() + 1);
        asked.get() <= 2
    };
    let text = format!("{}\n{key}\n", " ".repeat(1024 * 1024));
    assert!(!redactor.learn(&text, &twice));
    assert_eq!(
        (asked.get(), format!("{redactor:?}")),
        (3, "Redactor(0 keys)".to_owned())
    );
    assert!(redactor.learn(&text, &|| true));
    assert_eq!(format!("{redactor:?}"), "Redactor(1 keys)");
}

#[test]
fn the_users_own_key_is_replaced_whatever_it_looks_like() {
    let own = "local-server-key-of-mine";
    let redactor = Redactor::new(&["all".to_owned()], [own, "short"]).expect("`all` is known");
    assert_eq!(
        redactor.text("k = local-server-key-of-mine, short", None),
        "k = [redacted:model-api-key:1], short"
    );
}

#[test]
fn rules_are_switched_off_by_name() {
    let (github, url) = (format!("ghp_{}", any(36)), "redis://:Zx8vQp2LmN@h");
    let text = format!("{github} {url}");
    let off = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let redactor = Redactor::new(&names, []).expect("the rules are known");
        redactor.text(&text, None).into_owned()
    };
    assert_eq!(
        off(&["github-token"]),
        format!("{github} redis://:[redacted:url-password:1]@h")
    );
    assert_eq!(off(&["all"]), text);
    let problem = Redactor::new(&["github-tokens".to_owned()], []).expect_err("it is no rule");
    assert_eq!(problem.message, "`github-tokens` in `[policy] unredacted` is no rule");
    assert!(
        problem
            .hint
            .is_some_and(|hint| hint.starts_with("did you mean `github-token`? The rules are private-key, "))
    );
    for name in rule_names() {
        assert!(
            EnabledRules::without(&[name.to_owned()]).is_ok_and(|enabled| enabled != EnabledRules::all()),
            "{name}"
        );
    }
}

#[test]
fn a_key_comes_back_only_where_the_file_held_it() {
    let redactor = redactor();
    let (one, two) = (format!("ghp_{}", any(36)), format!("glpat-{}", any(20)));
    redactor.text(&format!("{one} {two}"), None);
    let (first, second) = ("[redacted:github-token:1]", "[redacted:gitlab-token:2]");
    let restore = |new: &str, old: &str| {
        let restored = redactor.restore(new.as_bytes().to_vec(), Some(old.as_bytes()));
        restored.map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
    };
    assert_eq!(
        restore(&format!("x = {first}\n"), &format!("y = {one}\n")),
        Ok(format!("x = {one}\n"))
    );
    assert_eq!(
        restore(&format!("x = {second}\n"), &format!("y = {one}\n")),
        Err(second.to_owned())
    );
    for made_up in [
        "[redacted:github-token:2]",
        "[redacted:github-token:9]",
        "[redacted:github-token]",
        "[redacted:jwt:1]",
    ] {
        assert_eq!(restore(made_up, &one), Err(made_up.to_owned()));
        assert_eq!(
            restore(made_up, made_up),
            Ok(made_up.to_owned()),
            "the file says so itself"
        );
    }
    assert_eq!(
        restore("[redacted:something:1]", ""),
        Ok("[redacted:something:1]".to_owned()),
        "no rule of ours"
    );
    let both = format!("{first} {one}");
    assert_eq!(
        restore(&format!("{first}{first}"), &both),
        Err(first.to_owned()),
        "it could mean either"
    );
    assert_eq!(
        redactor.restore(first.into(), None),
        Err(first.to_owned()),
        "a new file holds nothing"
    );
    let bytes = [b"\xff ".as_slice(), first.as_bytes()].concat();
    let expected = [b"\xff ".as_slice(), one.as_bytes()].concat();
    assert_eq!(redactor.restore(bytes, Some(one.as_bytes())), Ok(expected));
    let args = redactor.hide_where(&format!("{one} {two}"), &|key| key == one);
    assert_eq!(args, format!("{first} {two}"));
}

#[test]
fn a_skill_sees_placeholders_between_bytes_that_are_no_text() {
    let redactor = redactor();
    let key = format!("ghp_{}", any(36));
    let content = [b"\xff\xfe a = '".as_slice(), key.as_bytes(), b"' \xe9\n"].concat();
    let shown = [b"\xff\xfe a = '".as_slice(), b"[redacted:github-token:1]", b"' \xe9\n"].concat();
    assert_eq!(redactor.searchable(&content, true).as_ref(), Some(&shown));
    assert_eq!(redactor.restore(shown, Some(&content)), Ok(content.clone()));
    let mut covered = content.clone();
    redactor.cover(&mut covered);
    let stars = [
        b"\xff\xfe a = '".as_slice(),
        b"[redacted:github-token:1]***************",
        b"' \xe9\n",
    ]
    .concat();
    assert_eq!(covered, stars);
    assert_eq!(redactor.searchable(b"a = 1 \xff\n", false), None);
}

#[test]
fn a_key_in_16_bit_units_or_beside_a_nul_is_a_placeholder() {
    let key = format!("ghp_{}", any(36));
    let text = |key: &str| format!("größe = 1\r\ntoken = '{key}' 😀\r\n");
    let orders: [fn(u16) -> [u8; 2]; 2] = [u16::to_le_bytes, u16::to_be_bytes];
    for order in orders {
        for mark in ["", "\u{feff}"] {
            let redactor = redactor();
            let wide = |text: &str| -> Vec<u8> {
                let units = mark.encode_utf16().chain(text.encode_utf16());
                units.flat_map(order).collect()
            };
            let (content, shown) = (wide(&text(&key)), wide(&text("[redacted:github-token:1]")));
            assert_eq!(redactor.searchable(&content, true).as_ref(), Some(&shown));
            assert_eq!(redactor.restore(shown.clone(), Some(&content)), Ok(content.clone()));
            redactor.restore(shown, None).expect_err("a new file holds nothing");
            let mut covered = content;
            redactor.cover(&mut covered);
            assert_eq!(covered, wide(&text("[redacted:github-token:1]***************")));
            assert_eq!(redactor.searchable(&wide("x = 1\r\n"), false), None);
        }
    }
    let content = format!("\0 token = '{key}'\n");
    let shown = redactor().searchable(content.as_bytes(), true);
    assert_eq!(shown.as_deref(), Some(&b"\0 token = '[redacted:github-token:1]'\n"[..]));
}

#[test]
fn beyond_the_bound_keys_are_replaced_and_cannot_come_back() {
    let redactor = redactor();
    let key = |number: usize| format!("ghp_{}", drawn(number as u64 + 1, 36, ALPHANUMERIC));
    let all: Vec<String> = (0..crate::limits::REDACTION_KEYS_MAX + 3).map(key).collect();
    let out = redactor.text(&all.join("\n"), None).into_owned();
    assert!(!out.contains("ghp_"));
    assert_eq!(out.matches("[redacted:github-token]").count(), 3);
    assert_eq!(redactor.told().map(|told| told.count), Some(all.len()));
}

#[test]
fn time_grows_with_the_text_and_not_with_what_it_holds() {
    // Anchors of every rule, over and over. A text is compared with one of a sixteenth: the square would be 256 times.
    const BYTES: usize = 16 * 1024;
    let anchors = [
        "sk-",
        "eyJ",
        "-----BEGIN PRIVATE KEY-----\n",
        "token = \"",
        "://a:",
        "ghp_",
        "secret_key=",
    ];
    let others = [
        "-----BEGIN PRIVATE KEY----- BEGIN ",
        "private key ",
        // Keys within keys, without an end.
        "-sntrys_",
        "-pplx-a",
        "=xai-",
        ".AccountKey=",
        "-sk-proj-",
        // Names of keys, whose values are the next names.
        "token=",
        "-sntrys_sample",
    ];
    for piece in std::iter::once(anchors.concat()).chain(others.map(str::to_owned)) {
        let time = |bytes: usize| {
            let text = piece.repeat(bytes / piece.len());
            let started = std::time::Instant::now();
            assert!(!mask_keys(&text).is_empty());
            started.elapsed()
        };
        // A busy machine spoils a comparison, and not all of them.
        let is_in_proportion = (0..20).any(|_| time(16 * BYTES) < 64 * time(BYTES));
        assert!(is_in_proportion, "{piece}");
    }
}

proptest! {
    #[test]
    fn what_is_redacted_is_redacted_for_good(
        pieces in proptest::collection::vec((0..200_usize, "[ -~\\n]{0,40}"), 0..8)
    ) {
        let examples = examples();
        let mut text = String::new();
        for (at, words) in pieces {
            text.push_str(&format!("{words}\n{}\n", examples[at % examples.len()].1.text));
        }
        let redactor = redactor();
        let once = redactor.text(&text, None).into_owned();
        prop_assert_eq!(find_keys(&once, EnabledRules::all()), []);
        prop_assert_eq!(redactor.text(&once, None), once.as_str());
        // Everything comes back where the old file held it.
        let restored = redactor.restore(once.into_bytes(), Some(text.as_bytes()));
        prop_assert_eq!(restored.map(|bytes| String::from_utf8(bytes).expect("UTF-8")), Ok(text));
    }

    #[test]
    fn places_are_in_order_apart_and_on_characters(text in "(\\PC|[a-z=:\"'/@_\\n-]|ghp_|token = \"|sk-|://|PRIVATE KEY|-----){0,60}") {
        let mut end = 0;
        for found in find_keys(&text, EnabledRules::all()) {
            prop_assert!(found.range.start >= end && found.range.end > found.range.start);
            prop_assert!(text.get(found.range.clone()).is_some());
            end = found.range.end;
        }
    }
}

#[test]
fn of_a_private_key_without_end_a_bounded_number_of_lines_is_taken() {
    let line = format!("{}\n", drawn(7, 64, ALPHANUMERIC));
    let lines = 2 * REDACTION_KEY_LINES_MAX;
    let text = format!("-----BEGIN RSA PRIVATE KEY-----\n{}", line.repeat(lines));
    let ranges = super::pem::find_lines_below(&text, text.find('\n').expect("there is one"));
    assert_eq!(ranges.len(), REDACTION_KEY_LINES_MAX);
}

#[test]
fn of_a_private_key_that_comes_line_by_line_nothing_is_shown() {
    for frame in ["", "E   ", "    12\t", "+"] {
        let (redactor, mut armour) = (redactor(), String::new());
        let key = armoured("RSA PRIVATE KEY");
        let mut shown = String::new();
        for line in ["before"].into_iter().chain(key.lines()).chain(["after"]) {
            shown += &(redactor.live_line(&mut armour, &format!("{frame}{line}")) + "\n");
        }
        for line in key.lines().filter(|line| !line.contains("----")) {
            assert!(!shown.contains(line), "{shown}");
        }
        assert!(
            shown.contains("before\n") && shown.ends_with("after\n") && armour.is_empty(),
            "{shown}"
        );
    }
    // Whatever else stands on the first line.
    for before in ["BACKEND_KEY=", "-----END CERTIFICATE-----"] {
        let (redactor, mut armour) = (redactor(), String::new());
        let key = armoured("RSA PRIVATE KEY");
        let lines = format!("{before}{key}");
        let shown: Vec<String> = lines
            .lines()
            .map(|line| redactor.live_line(&mut armour, line))
            .collect();
        for line in key.lines().filter(|line| !line.contains("----")) {
            assert!(shown.iter().all(|shown| !shown.contains(line)), "{shown:?}");
        }
        assert_eq!(armour, "");
    }
    // One that stands in one line leaves nothing open, and one that never ends is none.
    let (redactor, mut armour) = (redactor(), String::new());
    redactor.live_line(
        &mut armour,
        "-----BEGIN PRIVATE KEY-----\\nx\\n-----END PRIVATE KEY-----",
    );
    assert_eq!(armour, "");
    redactor.live_line(&mut armour, "-----BEGIN RSA PRIVATE KEY-----");
    for _ in 0..=2 * REDACTION_KEY_LINES_MAX {
        redactor.live_line(&mut armour, "");
    }
    assert_eq!(armour, "");
    redactor.live_line(&mut armour, "-----BEGIN RSA PRIVATE KEY-----");
    let line = "a line of text ".repeat(100);
    for _ in 0..2 * REDACTION_KEY_BYTES_MAX / line.len() {
        assert_eq!(redactor.live_line(&mut armour, &line), line);
    }
    redactor.live_line(&mut armour, &line);
    assert_eq!(armour, "");
}

#[test]
fn files_with_keys_are_named_up_to_a_bound() {
    let redactor = redactor();
    let key = format!("ghp_{}", drawn(3, 36, ALPHANUMERIC));
    for number in 0..2 * REDACTION_FILES_NAMED_MAX {
        redactor.text(&key, Some(&format!("{number}.py")));
    }
    let files = redactor.told().expect("there is something to tell").files;
    assert_eq!(files.len(), REDACTION_FILES_NAMED_MAX);
}

#[test]
fn of_a_line_no_more_is_looked_at_than_a_key_can_fill() {
    let line = "x".repeat(2 * REDACTION_KEY_BYTES_MAX);
    assert_eq!(super::pem::end_of_line(&line, 0), REDACTION_KEY_BYTES_MAX);
}
