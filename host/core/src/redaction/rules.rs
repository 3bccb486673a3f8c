//! The rules: what a key of each kind looks like, and what only looks like one.
//!
//! One pass of one automaton finds the anchors, short texts without which a rule cannot match; only there is the
//! rule's pattern tried, on a window of bounded length, so that the time grows with the text and not with the rules. The forms
//! are those that the vendors document; each rule says where they come from. What stands for no key (examples,
//! variables, placeholders, words) is kept by the rule's own check.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, Input, Match};
use regex::Regex;

use super::{START, pem};
use crate::limits;

/// Bytes from an anchor in which a rule's pattern is tried. The longest key with a bound of its own has 300; what goes on
/// beyond the window is taken as a part of the key.
const REDACTION_WINDOW_BYTES: usize = 640;

/// One kind of key.
pub(super) struct Rule {
    /// As placeholders, notices and `[policy] unredacted` name it.
    pub(super) name: &'static str,
    /// In lower case; compared without regard to case. The pattern matches nothing that holds none of them.
    anchors: &'static [&'static str],
    /// Group 1 is the key. Tried from [`Self::back`] bytes before an anchor.
    pattern: &'static str,
    /// Bytes of the key before the anchor, at most.
    back: usize,
    /// True if the key begins a word: the text before it must not end inside one.
    is_word: bool,
    /// False for what has the form and is none.
    is_key: fn(&str) -> bool,
}

/// A key whose form alone says what it is.
const fn marked(name: &'static str, anchors: &'static [&'static str], pattern: &'static str) -> Rule {
    Rule {
        name,
        anchors,
        pattern,
        back: 0,
        is_word: true,
        is_key: is_no_sample,
    }
}

/// A key that only the words before it give away.
const fn named(
    name: &'static str,
    anchors: &'static [&'static str],
    pattern: &'static str,
    is_key: fn(&str) -> bool,
) -> Rule {
    Rule {
        name,
        anchors,
        pattern,
        back: 0,
        is_word: false,
        is_key,
    }
}

/// All rules. Where two find keys in one place, the earlier place counts, then the longer key, then the earlier rule.
pub(super) const RULES: &[Rule] = &[
    // PEM, OpenSSH and OpenPGP armour (RFC 7468, RFC 9580). The lines are `pem`'s business, see `find`.
    named("private-key", &["private key"], "", is_no_sample),
    // The IAM user guide, "IAM identifiers": prefixes of access keys of users and of temporary ones.
    marked(
        "aws-access-key",
        &["akia", "asia", "abia", "acca"],
        r"^((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?:[^A-Za-z0-9]|$)",
    ),
    // 40 characters of base64, which only their name tells from a hash.
    named(
        "aws-secret-key",
        &[
            "secret_access_key",
            "secretaccesskey",
            "secret_key",
            "secretkey",
            "secret-access-key",
        ],
        r#"(?i)^secret[_-]?(?:access[_-]?)?key["']?\s{0,8}[=:]\s{0,8}["']?([a-z0-9/+]{40})(?:[^a-z0-9/+=]|$)"#,
        is_random_mixed,
    ),
    // GitHub, "Authentication token formats": five prefixes, and fine-grained ones.
    marked(
        "github-token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"^(gh[pousr]_[A-Za-z0-9_]{36,}|github_pat_[A-Za-z0-9_]{50,})",
    ),
    // GitLab, "Token overview": prefixes of tokens.
    marked(
        "gitlab-token",
        &[
            "glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-",
            "gloas-", "glffct-",
        ],
        r"^(gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|soat|oas|ffct)-[A-Za-z0-9_.-]{20,})",
    ),
    // Slack, "Token types"; legacy forms are the same with another letter.
    marked(
        "slack-token",
        &[
            "xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxc-", "xoxd-", "xapp-",
        ],
        r"^(xox[abceoprsd][-.](?:xox[bp]-)?[A-Za-z0-9%/+-]*[0-9][A-Za-z0-9%/+-]{9,}|xapp-[0-9]-[A-Z0-9]{8,}-[0-9]+-[a-z0-9]{30,})",
    ),
    // Slack and Discord, incoming webhooks: who knows the address may post.
    named(
        "webhook-url",
        &["hooks.slack.com/", "/api/webhooks/"],
        r"^(?:hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{30,})|/api/webhooks/[0-9]{15,22}/([A-Za-z0-9_-]{50,}))",
        is_no_sample,
    ),
    // Stripe, "API keys": secret and restricted live keys, and signing secrets of webhooks. Test keys are for documents.
    marked(
        "stripe-key",
        &["sk_live_", "rk_live_", "whsec_"],
        r"^((?:sk|rk)_live_[A-Za-z0-9]{20,}|whsec_[A-Za-z0-9+/=]{32,})",
    ),
    // Google Cloud, "API keys", OAuth client secrets, and access tokens.
    marked(
        "google-key",
        &["aiza", "gocspx-", "ya29."],
        r"^(AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{30,})",
    ),
    // RFC 7519 in the compact form of RFC 7515, signed: both parts are JSON objects.
    marked(
        "jwt",
        &["eyj"],
        r"^(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,})",
    ),
    // npm, "About access tokens", and what an `.npmrc` says by name.
    marked("npm-token", &["npm_"], r"^(npm_[A-Za-z0-9]{36})(?:[^A-Za-z0-9]|$)"),
    named(
        "npm-token",
        &["_authtoken"],
        r#"^_authToken\s{0,4}=\s{0,4}["']?([A-Za-z0-9_.=/+-]{20,})"#,
        is_no_sample,
    ),
    // PyPI, "API tokens": macaroons, whose first bytes are always the same.
    marked("pypi-token", &["pypi-ag"], r"^(pypi-Ag[A-Za-z0-9_-]{50,})"),
    // Tokens of registries and builders: crates.io, RubyGems, Docker Hub, NuGet, HashiCorp.
    marked(
        "registry-token",
        &["cio", "rubygems_", "dckr_", "oy2"],
        r"^(cio[A-Za-z0-9]{32}|rubygems_[a-f0-9]{48}|dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,40}|oy2[a-z0-9]{43})(?:[^A-Za-z0-9]|$)",
    ),
    // Services of models: `sk-` with or without a vendor's mark, and the other prefixes that their consoles show.
    marked(
        "model-api-key",
        &["sk-", "gsk_", "hf_", "r8_", "pplx-", "xai-"],
        r"^(sk-(?:ant|proj|svcacct|admin|or|lf)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{32,}|gsk_[A-Za-z0-9]{40,}|hf_[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{37}|pplx-[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{60,})",
    ),
    // Azure: account keys and shared access keys by name, client secrets by their form, signatures of SAS addresses.
    named(
        "azure-key",
        &["accountkey=", "sharedaccesskey=", "sharedaccesssignature="],
        r"(?i)^(?:AccountKey|SharedAccessKey|SharedAccessSignature)=([A-Za-z0-9+/%=&_.-]{40,})",
        is_no_sample,
    ),
    Rule {
        name: "azure-key",
        anchors: &["q~"],
        pattern: r"^([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)",
        back: 4,
        is_word: true,
        is_key: is_no_sample,
    },
    named(
        "azure-key",
        &["sig="],
        r"^sig=([A-Za-z0-9%+/]{43,}(?:%3[Dd]|=))",
        is_random,
    ),
    // Twilio, "API keys"; account identifiers (`AC…`) are no secret.
    marked("twilio-key", &["sk"], r"^(SK[0-9a-f]{32})(?:[^A-Za-z0-9]|$)"),
    // SendGrid, "API keys": three parts.
    marked(
        "sendgrid-key",
        &["sg."],
        r"^(SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,})",
    ),
    // Telegram, "Bot API": a bot's number, a colon, a key that begins with `AA`.
    Rule {
        name: "telegram-token",
        anchors: &[":aa"],
        pattern: r"(?:^|[^0-9])([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)",
        back: 11,
        is_word: false,
        is_key: is_no_sample,
    },
    // Clouds, databases and tools whose tokens begin with a mark of their own, as their consoles show them.
    marked(
        "service-token",
        &[
            "dop_v1_",
            "doo_v1_",
            "dor_v1_",
            "shpat_",
            "shpss_",
            "shpca_",
            "shppa_",
            "sq0csp-",
            "sq0atp-",
            "hvs.",
            "hvb.",
            "dapi",
            "lin_api_",
            "ntn_",
            "pmak-",
            "glsa_",
            "glc_",
            "nrak-",
            "age-secret-key-1",
            "dp.pt.",
            "dp.st.",
            "pul-",
            "sntrys_",
            "sbp_",
            "pscale_tkn_",
            "pscale_pw_",
            "figd_",
            "tskey-",
            "dt0c01.",
            "atatt3",
            "atbb",
            "hrku-",
            "fo1_",
            "nfp_",
            "rnd_",
            "key-",
            "sl.",
        ],
        r"^((?:dop|doo|dor)_v1_[a-f0-9]{64}|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}|sq0(?:csp|atp)-[A-Za-z0-9_-]{22,}|hv[sb]\.[A-Za-z0-9_-]{24,}|dapi[a-f0-9]{32}|lin_api_[A-Za-z0-9]{40}|ntn_[A-Za-z0-9]{43,}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}|glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|glc_[A-Za-z0-9+/]{32,}={0,2}|NRAK-[A-Z0-9]{27}|AGE-SECRET-KEY-1[0-9A-Z]{58}|dp\.(?:pt|st)\.[A-Za-z0-9._-]{40,}|pul-[a-f0-9]{40}|sntrys_[A-Za-z0-9+/=_-]{60,}|sbp_[a-f0-9]{40}|pscale_(?:tkn|pw)_[A-Za-z0-9_.=-]{32,}|figd_[A-Za-z0-9_-]{40,}|tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]+-[A-Za-z0-9]{20,}|dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}|ATATT3[A-Za-z0-9_=-]{150,}|ATBB[A-Za-z0-9]{32}|HRKU-[A-Za-z0-9_-]{36,}|fo1_[A-Za-z0-9_-]{43}|nfp_[A-Za-z0-9]{36}|rnd_[A-Za-z0-9]{32}|key-[a-f0-9]{32}|sl\.[A-Za-z0-9_-]{130,})",
    ),
    // RFC 3986: the user information of a URL, of a database or any other server.
    named(
        "url-password",
        &["://"],
        r#"^://[^\s:/@"'`<>\\]*:([^\s/@"'`<>\\]{5,})@[A-Za-z0-9\[]"#,
        is_password,
    ),
    // RFC 9110: credentials in a header that is written down.
    named(
        "authorization-header",
        &["authorization"],
        r#"(?i)^authorization["']?\s{0,4}[:=,]\s{0,4}["']?(?:bearer|basic|token)\s{1,4}([a-z0-9._~+/=-]{16,})"#,
        is_random,
    ),
    // A name that says "secret" with a quoted value that looks random.
    named(
        "generic-secret",
        &[
            "api_key",
            "api-key",
            "apikey",
            "secret",
            "token",
            "access_key",
            "accesskey",
            "private_key",
            "privatekey",
            "auth_key",
            "authkey",
            "encryption_key",
            "signing_key",
            "credential",
        ],
        r#"(?i)^[a-z_-]{3,24}["'\]]{0,2}(?:\s{0,4}:\s{0,2}[a-z&<>' ]{1,24})?\s{0,8}(?:=>|:=|[=:,])\s{0,8}[bru]?["'`]([a-z0-9+/_.=~-]{16,})["'`]"#,
        is_random,
    ),
    // Secrets without quotes, as in YAML, `.properties` and shell: the value ends its line.
    named(
        "generic-secret",
        &[
            "api_key",
            "api-key",
            "apikey",
            "secret",
            "token",
            "access_key",
            "auth_key",
            "encryption_key",
            "signing_key",
        ],
        r"(?im)^[a-z_-]{3,24}[ \t]{0,4}[=:][ \t]{0,4}([a-z0-9+/_=-]{20,})[ \t]{0,8}(?:#.*)?\r?$",
        is_random_mixed,
    ),
    named(
        "generic-password",
        &["password", "passwd", "passphrase", "pwd"],
        r#"(?i)^pass?(?:word|wd|phrase)?["'\]]{0,2}\s{0,8}(?:=>|:=|[=:])\s{0,8}[bru]?["'`]([^\s"'`$%{}<>()\[\]]{12,})["'`]"#,
        is_strong_password,
    ),
];

/// A place that looks like a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleMatch {
    pub(super) range: Range<usize>,
    /// Index in [`RULES`].
    pub(super) rule: usize,
    /// False for a further line of the key that the place before began.
    pub(super) is_first: bool,
}

/// Set of enabled rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Enabled(u64);

const _: () = assert!(RULES.len() <= 64, "`Enabled` has a bit for each rule");

impl Enabled {
    /// All of them.
    pub(super) fn all() -> Self {
        Self(u64::MAX)
    }

    /// All but those of these names; `all` names every one. The error is the first name that is none.
    pub(super) fn without(names: &[String]) -> Result<Self, &String> {
        let mut bits = u64::MAX;
        for name in names {
            let is_meant = |rule: &Rule| name == "all" || rule.name == name;
            let meant = RULES.iter().enumerate().filter(|(_, rule)| is_meant(rule));
            let off = meant.fold(0, |off, (at, _)| off | 1 << at);
            if off == 0 {
                return Err(name);
            }
            bits &= !off;
        }
        Ok(Self(bits))
    }

    fn has(self, rule: usize) -> bool {
        self.0 >> rule & 1 == 1
    }
}

/// The first rule of this name, which is one of the table.
pub(super) fn named_index(name: &str) -> usize {
    let at = RULES.iter().position(|rule| rule.name == name);
    at.expect("the name is one of the table")
}

/// The names of the rules, each once.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    names.dedup();
    names
}

/// The automaton over all anchors, with the rule of each.
struct Anchors {
    automaton: AhoCorasick,
    rules: Vec<usize>,
}

static ANCHORS: LazyLock<Anchors> = LazyLock::new(|| {
    let pairs = RULES
        .iter()
        .enumerate()
        .flat_map(|(at, rule)| rule.anchors.iter().map(move |anchor| (*anchor, at)));
    let (anchors, rules): (Vec<&str>, Vec<usize>) = pairs.unzip();
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(anchors);
    Anchors {
        automaton: automaton.expect("the anchors are few and short"),
        rules,
    }
});

/// The patterns, each compiled when the first text has one of its anchors: most texts have few.
static PATTERNS: [OnceLock<Regex>; RULES.len()] = [const { OnceLock::new() }; RULES.len()];

fn pattern(rule: usize) -> &'static Regex {
    PATTERNS[rule]
        .get_or_init(|| Regex::new(RULES[rule].pattern).expect("the patterns are valid, a test compiles each"))
}

/// Bytes of a text between two looks at whether the caller still waits: some milliseconds.
const SLICE_BYTES: usize = 64 * 1024;

/// The places of a text that look like keys, in order and apart.
pub(super) fn find(text: &str, enabled: Enabled) -> Vec<RuleMatch> {
    let all = find_while(text, enabled, &|| true);
    all.expect("nobody stops it")
}

/// Like [`find`], but calls `is_wanted` for each slice of the text and returns `None` once that is false.
pub(super) fn find_while(text: &str, enabled: Enabled, is_wanted: &dyn Fn() -> bool) -> Option<Vec<RuleMatch>> {
    let anchors = &*ANCHORS;
    let mut found: Vec<RuleMatch> = Vec::new();
    // Up to where what follows an anchor of a rule is known to be no key.
    let mut judged = vec![0; RULES.len()];
    for hit in hits(text, is_wanted) {
        let hit = hit?;
        let rule = anchors.rules[hit.pattern().as_usize()];
        // Anchors inside a key belong to that key, however many it holds.
        if found
            .last()
            .is_some_and(|last| last.range.start < hit.start() && hit.start() < last.range.end)
        {
            continue;
        }
        if !is_wanted() {
            return None;
        }
        if RULES[rule].pattern.is_empty() {
            let lines = pem::lines(text, hit.start()).into_iter().enumerate();
            found.extend(lines.map(|(at, range)| RuleMatch {
                range,
                rule,
                is_first: at == 0,
            }));
            continue;
        }
        if hit.start() < judged[rule] {
            continue;
        }
        match key_at(text, hit.start(), rule) {
            At::Key(range) => found.push(RuleMatch {
                range,
                rule,
                is_first: true,
            }),
            // Each of the anchors in it would be judged by nearly the same text once more.
            At::Run(window) => judged[rule] = window.start + window.len() / 2,
            At::Nothing => {}
        }
    }
    found.sort_by_key(|found| (found.range.start, std::cmp::Reverse(found.range.end), found.rule));
    let mut end = 0;
    found.retain(|found| {
        let is_apart = found.range.start >= end;
        end = end.max(found.range.end);
        // Text that a disabled rule has matched goes to no other rule, either.
        is_apart && enabled.has(found.rule)
    });
    Some(found)
}

/// Every anchor of a text by its end, as one search would find them; `None` in place of a slice for which `is_wanted`
/// is false.
fn hits(text: &str, is_wanted: &dyn Fn() -> bool) -> impl Iterator<Item = Option<Match>> {
    let anchors = &ANCHORS.automaton;
    let starts = (0..text.len()).step_by(SLICE_BYTES);
    starts.flat_map(move |start| {
        let end = text.len().min(start + SLICE_BYTES);
        // A match across slices belongs to the one in which it ends.
        let before = start.saturating_sub(anchors.max_pattern_len());
        let input = Input::new(text).range(before..end);
        let wanted = is_wanted().then(|| anchors.find_overlapping_iter(input));
        let hits = wanted.map(|hits| hits.filter(move |hit| hit.end() > start));
        let stop = hits.is_none().then_some(None);
        hits.into_iter().flatten().map(Some).chain(stop)
    })
}

/// Result of trying a rule at an anchor.
enum At {
    Key(Range<usize>),
    /// No key, though it fills the window.
    Run(Range<usize>),
    Nothing,
}

/// Tries the rule at an anchor.
fn key_at(text: &str, anchor: usize, at: usize) -> At {
    let rule = &RULES[at];
    let mut from = anchor.saturating_sub(rule.back);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    if rule.is_word && is_inside_word(&text.as_bytes()[..from]) {
        return At::Nothing;
    }
    let window = &text[from..text.floor_char_boundary(from + REDACTION_WINDOW_BYTES)];
    let Some(key) = pattern(at)
        .captures(window)
        .and_then(|found| found.iter().skip(1).flatten().next())
    else {
        return At::Nothing;
    };
    let start = from + key.start();
    let mut end = from + key.end();
    let is_long = key.end() == window.len();
    if text[start..].starts_with(START) || !(rule.is_key)(&text[start..end]) {
        return if is_long { At::Run(start..end) } else { At::Nothing };
    }
    if is_long {
        // A key that is longer than the window is one all the same.
        let more = text[end..].bytes().take(limits::REDACTION_KEY_BYTES_MAX);
        end += more.take_while(|byte| is_key_byte(*byte)).count();
    }
    At::Key(start..end)
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./+=~%".contains(&byte)
}

/// True where what comes next would go on with a word. A letter that belongs to an escape (`\n`, `%3D`) is none.
fn is_inside_word(before: &[u8]) -> bool {
    match before {
        [.., b'\\', b'n' | b'r' | b't'] => false,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => false,
        [.., last] => last.is_ascii_alphanumeric() || *last == b'_',
        [] => false,
    }
}

// ---- what only looks like a key ----

/// Words that documents put where a key belongs.
const SAMPLES: [&str; 12] = [
    "example",
    "sample",
    "dummy",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "your_",
    "your-",
    "xxxxxx",
    "not-a-",
    "redacted",
];

fn is_no_sample(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let counts = ["0123456789", "1234567890", "bcdefghij"];
    !SAMPLES.iter().chain(&counts).any(|sample| lower.contains(sample)) && !has_run(text)
}

/// One character eight times in a row: `AAAAAAAA`, `00000000`, `********`.
fn has_run(text: &str) -> bool {
    let mut longest = 0;
    let mut last = None;
    for byte in text.bytes() {
        longest = if last == Some(byte) { longest + 1 } else { 1 };
        if longest >= 8 {
            return true;
        }
        last = Some(byte);
    }
    false
}

/// True for a value that looks random: no words, no identifier of anything public.
fn is_random(text: &str) -> bool {
    let bits = if text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        2.6
    } else {
        3.4
    };
    is_no_sample(text)
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !is_uuid(text)
        && !is_spoken(text)
        && entropy(text) >= bits
}

/// Stricter [`is_random`] for values without quotes, where names and paths stand as well.
fn is_random_mixed(text: &str) -> bool {
    let has = |of: fn(&u8) -> bool| text.bytes().filter(of).count();
    let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit()) && text.len() >= 32;
    let is_mixed = has(u8::is_ascii_digit) >= 2 && has(u8::is_ascii_uppercase) >= 2 && has(u8::is_ascii_lowercase) >= 2;
    is_random(text) && (is_hexadecimal || is_mixed)
}

/// The password of a URL. What stands for one in documents and templates is kept, and so is the name of the user.
fn is_password(text: &str) -> bool {
    const COMMON: [&str; 16] = [
        "pass", "password", "passwd", "pwd", "pw", "secret", "token", "user", "username", "admin", "root", "test",
        "guest", "postgres", "mysql", "redis",
    ];
    let lower = text.to_ascii_lowercase();
    let is_template =
        text.contains(['$', '{', '}', '<', '>', '*', '(', ')', '[', ']', ',', '|']) || text.starts_with('%');
    let is_port = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 5;
    !is_template && !is_port && !COMMON.contains(&lower.as_str()) && is_no_sample(text)
}

/// A quoted password with letters of both cases and digits; words of tests and forms are not that.
fn is_strong_password(text: &str) -> bool {
    let has = |of: fn(&u8) -> bool| text.bytes().any(|byte| of(&byte));
    has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && is_no_sample(text)
        && !is_uuid(text)
        && !is_spoken(text)
        && !text.contains(['/', '\\'])
        && entropy(text) >= 3.2
}

/// `123e4567-e89b-12d3-a456-426614174000`.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && parts
            .iter()
            .all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// True for words with separators between them: `csrf_token_v2-header.name`, `my-super-secret-value1`.
fn is_spoken(text: &str) -> bool {
    let is_word = |part: &str| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let tail = part.trim_end_matches(|c: char| c.is_ascii_digit());
        // A word may be capitalised and numbered, and no more than that.
        digits <= 4 && tail.bytes().skip(1).all(|byte| byte.is_ascii_lowercase())
            || part.bytes().all(|b| b.is_ascii_uppercase())
    };
    let parts: Vec<&str> = text
        .split(['_', '-', '.', '/', '=', '+', '~'])
        .filter(|part| !part.is_empty())
        .collect();
    parts.iter().all(|part| is_word(part) && part.len() <= 20)
}

/// Bits a character, after Shannon.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = text.len() as f64;
    let shares = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / total);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_an_escape_are_no_word() {
        for before in [&b"a"[..], b"_", b"%3g", b"%g3", b"x3d"] {
            assert!(is_inside_word(before), "{}", before.escape_ascii());
        }
        for before in [&b""[..], b" ", b"-", b"%3D", b"\\n"] {
            assert!(!is_inside_word(before), "{}", before.escape_ascii());
        }
    }

    #[test]
    fn entropy_is_counted_in_bits_a_character() {
        let told = ["aaaa", "aabb", "abcd", "abcdefgh"].map(entropy);
        assert_eq!(told, [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_strong_password_has_letters_of_both_cases_and_digits() {
        assert!(is_strong_password("k3Q7z9V1b5X2w8"));
        for weak in ["k3q7z9v1b5x2w8", "K3Q7Z9V1B5X2W8", "kQzVbXwJmTrFgH"] {
            assert!(!is_strong_password(weak), "{weak}");
        }
    }

    #[test]
    fn a_key_is_of_letters_digits_and_some_signs() {
        assert!(b"aZ0_-./+=~%".iter().all(|&byte| is_key_byte(byte)));
        assert!(!b" \"'$,;:".iter().any(|&byte| is_key_byte(byte)));
    }
}
