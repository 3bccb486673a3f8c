//! Parses one line of a log: time, level and message. Each format has a pure function.

use serde::Deserialize;
use skill_sdk::serde_json::{self, Map, Value};

use crate::time::{self, LogTime};

/// Severity of an entry. The many names of loggers are reduced to six.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Trace,
    Debug,
    Info,
    Warning,
    Error,
    Critical,
}

impl Level {
    pub(crate) const ALL: [Self; 6] = [
        Self::Critical,
        Self::Error,
        Self::Warning,
        Self::Info,
        Self::Debug,
        Self::Trace,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        // Level names have 3 to 9 letters; this skips most words of a log.
        if name.len() > 9 || name.len() < 3 {
            return None;
        }
        Some(match name.to_ascii_lowercase().as_str() {
            "trace" | "verbose" | "finest" | "finer" => Self::Trace,
            "debug" | "dbg" | "fine" => Self::Debug,
            "info" | "information" | "notice" | "log" | "config" => Self::Info,
            "warn" | "warning" | "wrn" => Self::Warning,
            "error" | "err" | "severe" | "fail" => Self::Error,
            "critical" | "crit" | "fatal" | "panic" | "alert" | "emerg" | "emergency" => Self::Critical,
            _ => return None,
        })
    }

    /// Converts the letter of glog, logcat and Ruby.
    fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'V' | b'T' => Self::Trace,
            b'D' => Self::Debug,
            b'I' => Self::Info,
            b'W' => Self::Warning,
            b'E' => Self::Error,
            b'F' => Self::Critical,
            _ => return None,
        })
    }

    /// Converts the severity of syslog, 0 to 7.
    fn from_severity(severity: u32) -> Self {
        match severity {
            0..=2 => Self::Critical,
            3 => Self::Error,
            4 => Self::Warning,
            5 | 6 => Self::Info,
            _ => Self::Debug,
        }
    }

    /// Converts the numbers of pino and bunyan, and those of Python.
    fn from_number(number: f64) -> Option<Self> {
        Some(match number as i64 {
            10 => Self::Trace,
            20 => Self::Debug,
            30 => Self::Info,
            40 => Self::Warning,
            50 => Self::Error,
            60 => Self::Critical,
            severity @ 0..=7 => Self::from_severity(severity as u32),
            _ => return None,
        })
    }
}

/// The parsed first line of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    pub(crate) time: Option<LogTime>,
    pub(crate) level: Option<Level>,
    /// Text after time and level.
    pub(crate) message: String,
}

/// Bytes of a line that may contain its level, after time, host, thread and logger.
const PREFIX_BYTES: usize = 160;
/// Words after the time that may contain the level.
const PREFIX_WORDS: usize = 6;

/// Parses the first line of an entry; `None` if it has neither time nor level.
pub(crate) fn parse_header(line: &str, now_ms: i64) -> Option<EntryHeader> {
    let line = line.trim_end();
    if line.starts_with('{') {
        return parse_json(line, now_ms);
    }
    if let Some(found) = parse_syslog(line, now_ms) {
        return Some(found);
    }
    parse_plain(line, now_ms).or_else(|| after_service(line, now_ms))
}

/// Parses `name  | line`, as compose writes the lines of several services.
fn after_service(line: &str, now_ms: i64) -> Option<EntryHeader> {
    let (service, rest) = line.split_once(" | ")?;
    let is_name = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    (service.len() < 40 && service.chars().all(is_name)).then(|| parse_plain(rest.trim_start(), now_ms))?
}

/// Parses `time level message` in its many forms, or `level: message`.
fn parse_plain(line: &str, now_ms: i64) -> Option<EntryHeader> {
    if let Some(found) = parse_glog(line) {
        return Some(found);
    }
    if let Some(found) = parse_logfmt(line, now_ms) {
        return Some(found);
    }
    // Ruby: `E, [2024-05-01T12:00:00 #1] ERROR -- : message`.
    let start = match line.as_bytes() {
        [letter, b',', b' ', b'[', ..] if Level::from_letter(*letter).is_some() => 3,
        _ => 0,
    };
    let unwrapped = line[start..].trim_start_matches(['[', '(', '<']);
    if let Some((time, length)) = time::leading_timestamp(unwrapped, now_ms) {
        let rest = &unwrapped[length..];
        let (level, message) = level_within(rest);
        return Some(EntryHeader {
            time,
            level,
            message: message.to_owned(),
        });
    }
    // Access logs: `127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 12`.
    if let Some((before, rest)) = line.split_once(" [")
        && before.len() < 100
        && let Some((Some(time), length)) = time::leading_timestamp(rest, now_ms)
        && rest[length..].starts_with("] \"")
    {
        return Some(EntryHeader {
            time: Some(time),
            level: None,
            message: format!("{before} {}", &rest[length + 2..]),
        });
    }
    let (level, message) = level_first(line)?;
    Some(EntryHeader {
        time: None,
        level: Some(level),
        message: message.to_owned(),
    })
}

/// Parses `E0501 12:00:00.123456 1234 file.cc:12] message`.
fn parse_glog(line: &str) -> Option<EntryHeader> {
    let (head, rest) = line.split_at_checked(6)?;
    let level = Level::from_letter(head.as_bytes()[0])?;
    let is_date = head[1..].bytes().take(4).all(|byte| byte.is_ascii_digit()) && head.ends_with(' ');
    let (_, length) = is_date.then(|| time::leading_timestamp(rest.trim_start(), 0))??;
    let message = rest.trim_start()[length..]
        .split_once("] ")
        .map_or("", |(_, message)| message);
    Some(EntryHeader {
        time: None,
        level: Some(level),
        message: message.to_owned(),
    })
}

/// Parses `time=… level=info msg="…" key=value`.
fn parse_logfmt(line: &str, now_ms: i64) -> Option<EntryHeader> {
    let value = |keys: &[&str]| keys.iter().find_map(|key| logfmt_value(line, key));
    let level = value(&["level", "lvl", "severity"])?;
    let level = Level::from_name(level)?;
    let time = value(&["time", "ts", "timestamp", "t"]).and_then(|text| parse_time(text, now_ms));
    let message = value(&["msg", "message", "event"]).map_or(line, |message| message);
    Some(EntryHeader {
        time,
        level: Some(level),
        message: message.to_owned(),
    })
}

/// The value of a key at the start of a word, without quotes.
fn logfmt_value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let found = line
        .match_indices(key)
        .find(|(at, _)| (*at == 0 || line.as_bytes()[at - 1] == b' ') && line[at + key.len()..].starts_with('='));
    let value = &line[found?.0 + key.len() + 1..];
    match value.strip_prefix('"') {
        Some(quoted) => Some(&quoted[..closing_quote(quoted)]),
        None => Some(value.split(' ').next().unwrap_or_default()),
    }
}

/// Finds the end of the quote that opened before `text`.
fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return at,
            _ => escaped = byte == b'\\' && !escaped,
        }
    }
    text.len()
}

/// Parses a time value: a timestamp, or a number.
fn parse_time(text: &str, now_ms: i64) -> Option<LogTime> {
    match time::leading_timestamp(text, now_ms) {
        Some((time, _)) => time,
        None => LogTime::from_number(text.parse().ok()?),
    }
}

/// Parses RFC 5424 and RFC 3164, the latter also without priority, as in files.
fn parse_syslog(line: &str, now_ms: i64) -> Option<EntryHeader> {
    let (level, rest) = match parse_priority(line) {
        Some((severity, rest)) => (Some(Level::from_severity(severity)), rest),
        None => (None, line),
    };
    if level.is_some()
        && let Some(rest) = rest.strip_prefix("1 ")
    {
        // Time, host, application, process, message id, structured data, message.
        let mut fields = rest.splitn(6, ' ');
        let time = fields.next().and_then(|text| parse_time(text, now_ms));
        let message = fields.nth(4).map_or("", without_data);
        return Some(EntryHeader {
            time,
            level,
            message: message.trim_start_matches('\u{feff}').to_owned(),
        });
    }
    let is_named = rest.as_bytes().first().is_some_and(u8::is_ascii_uppercase) || level.is_some();
    let (time, length) = is_named.then(|| time::leading_timestamp(rest, now_ms))??;
    let rest = rest[length..].trim_start();
    // The host does not matter; the application stays part of the message.
    let (_, message) = rest.split_once(' ')?;
    let is_tagged = message.split(' ').next().is_some_and(|tag| tag.ends_with(':'));
    if !is_tagged {
        return level.map(|level| EntryHeader {
            time,
            level: Some(level),
            message: message.to_owned(),
        });
    }
    let told = message
        .split_once(": ")
        .and_then(|(_, text)| level_first(text))
        .map(|(level, _)| level);
    Some(EntryHeader {
        time,
        level: level.or(told),
        message: message.to_owned(),
    })
}

/// Parses `<34>`: the severity, and the rest.
fn parse_priority(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.strip_prefix('<')?.split_once('>')?;
    let number: u32 = number.parse().ok().filter(|&number| number < 192)?;
    Some((number % 8, rest))
}

/// The message after the structured data: `-` or elements in brackets.
fn without_data(text: &str) -> &str {
    if text.starts_with('[') {
        text.find("] ").map_or("", |end| &text[end + 2..])
    } else {
        text.trim_start_matches("- ").trim_start_matches('-')
    }
}

/// The level among the first words after a time, and the text after it.
fn level_within(rest: &str) -> (Option<Level>, &str) {
    let prefix = &rest[..rest.floor_char_boundary(PREFIX_BYTES)];
    let mut from = 0;
    let mut words = 0;
    while words < PREFIX_WORDS {
        let Some(start) = prefix[from..].find(|c: char| !is_space(c)).map(|at| from + at) else {
            break;
        };
        let end = prefix[start..].find(is_space).map_or(prefix.len(), |at| start + at);
        let word = &prefix[start..end];
        if let Some(level) = level_of(word, words == 0) {
            return (Some(level), message_in(&rest[end..]));
        }
        words += usize::from(word.contains(char::is_alphanumeric));
        from = end;
    }
    (None, message_in(rest))
}

fn is_space(c: char) -> bool {
    c == ' ' || c == '\t' || c == '|'
}

/// The text without leading separators.
fn message_in(rest: &str) -> &str {
    rest.trim_start_matches(|c: char| is_space(c) || "]):-".contains(c))
}

/// The level in a word: upper case anywhere, lower case only if it is marked as a level.
fn level_of(word: &str, is_first: bool) -> Option<Level> {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    let is_marked = is_first || word.starts_with('[') || word.ends_with([':', ']']);
    // `[core:error]` of Apache.
    let parts = bare.split(':').filter(|part| !part.is_empty());
    let found = |part: &str| {
        let is_upper = part.bytes().all(|byte| byte.is_ascii_uppercase());
        (is_upper || is_marked).then(|| Level::from_name(part)).flatten()
    };
    let mut parts = parts;
    if word.starts_with('[') {
        parts.find_map(found)
    } else {
        parts.next().and_then(found)
    }
}

/// The level at the start of a line: `ERROR:name:message`, `[warn] message`, `error: message`, `npm ERR! message`.
fn level_first(line: &str) -> Option<(Level, &str)> {
    if let Some(rest) = line.strip_prefix("npm ") {
        let (word, rest) = rest.split_once(' ')?;
        let level = Level::from_name(word.trim_end_matches('!'))?;
        return Some((level, rest));
    }
    let is_bracketed = line.starts_with('[');
    let name = line.trim_start_matches('[');
    let end = name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
    let (name, rest) = name.split_at(end);
    let level = Level::from_name(name)?;
    let is_upper = name.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_closed = if is_bracketed {
        rest.starts_with(']')
    } else {
        rest.starts_with(':') || (is_upper && rest.starts_with([' ', '\t']))
    };
    is_closed.then(|| (level, message_in(rest)))
}

/// Parses a line that is a JSON object.
fn parse_json(line: &str, now_ms: i64) -> Option<EntryHeader> {
    let object: Map<String, Value> = serde_json::from_str(line).ok()?;
    let get = |keys: &[&str]| keys.iter().find_map(|key| object.get(*key));
    let time = get(&[
        "time",
        "timestamp",
        "ts",
        "@timestamp",
        "datetime",
        "asctime",
        "date",
        "@t",
        "t",
    ]);
    let time = time.and_then(|value| match value {
        Value::String(text) => parse_time(text, now_ms),
        Value::Number(number) => LogTime::from_number(number.as_f64()?),
        _ => None,
    });
    let level = get(&[
        "level",
        "severity",
        "levelname",
        "lvl",
        "log.level",
        "loglevel",
        "level_name",
        "@l",
    ]);
    let level = level
        .or_else(|| object.get("log")?.get("level"))
        .and_then(|value| match value {
            Value::String(text) => Level::from_name(text.trim()),
            Value::Number(number) => Level::from_number(number.as_f64()?),
            _ => None,
        });
    let message = get(&["message", "msg", "event", "text", "@m", "@mt", "error", "log"]);
    let message = message.or_else(|| object.get("fields")?.get("message"));
    let message = match message {
        Some(Value::String(text)) => text.trim_end().to_owned(),
        Some(other) => other.to_string(),
        None => line.to_owned(),
    };
    // Docker stores a program's line as `log`, with the level in it.
    let level = level.or_else(|| {
        object
            .contains_key("stream")
            .then(|| parse_header(&message, now_ms))
            .flatten()
            .and_then(|inner| inner.level)
    });
    Some(EntryHeader { time, level, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_718_409_600_000;

    #[test]
    fn shapes() {
        let lines = [
            "2024-05-01 12:00:00,123 ERROR app.db: lost connection",
            "2024-05-01 12:00:00,123 - app.db - WARNING - slow query",
            "[2024-05-01 12:00:00] [info] started",
            "[2024-05-01T12:00:00Z ERROR my_crate::db] lost",
            "2024-05-01T12:00:00.123Z  INFO request{id=7}: app: done",
            "2024-05-01 12:00:00.123 | DEBUG    | mod:fn:12 - value",
            "2024-05-01 12:00:00.123  WARN 4711 --- [main] c.e.App : careful",
            "2024/05/01 12:00:00 [error] 1234#0: *1 open() failed",
            "[Wed Oct 11 14:32:52.123 2023] [core:error] [pid 1] AH001: denied",
            "2024-05-01 12:00:00.123 UTC [123] FATAL:  role does not exist",
            "E, [2024-05-01T12:00:00.123 #1] ERROR -- : boom",
            "E0501 12:00:00.123456  1234 file.cc:12] lost",
            "time=\"2024-05-01T12:00:00Z\" level=error msg=\"it \\\"broke\\\"\" id=1",
            "ERROR:root:something",
            "[WARN] something",
            "error: could not compile",
            "npm ERR! missing script",
            "12:00:00.123 [main] INFO  App - up",
            "web_1  | 2024-05-01 12:00:00 ERROR x",
            "127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 500 12",
            "2024-05-01 12:00:00 the error count is 3",
        ];
        insta::assert_snapshot!(all(&lines), @r#"
        2024-05-01 12:00:00 error | app.db: lost connection
        2024-05-01 12:00:00 warning | slow query
        2024-05-01 12:00:00 info | started
        2024-05-01 12:00:00Z error | my_crate::db] lost
        2024-05-01 12:00:00Z info | request{id=7}: app: done
        2024-05-01 12:00:00 debug | mod:fn:12 - value
        2024-05-01 12:00:00 warning | 4711 --- [main] c.e.App : careful
        2024-05-01 12:00:00 error | 1234#0: *1 open() failed
        2023-10-11 14:32:52 error | [pid 1] AH001: denied
        2024-05-01 12:00:00Z critical | role does not exist
        2024-05-01 12:00:00 error | boom
        - error | lost
        2024-05-01 12:00:00Z error | it \"broke\"
        - error | root:something
        - warning | something
        - error | could not compile
        - error | missing script
        - info | App - up
        2024-05-01 12:00:00 error | x
        2000-10-10 20:55:36Z - | 127.0.0.1 - - "GET / HTTP/1.0" 500 12
        2024-05-01 12:00:00 - | the error count is 3
        "#);
    }

    #[test]
    fn syslog_shapes() {
        let lines = [
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
            "<165>1 2003-10-11T22:14:15.003Z host app - ID47 [ex@1 a=\"b\"] \u{feff}An event",
            "<11>1 2003-10-11T22:14:15.003Z host app 12 - - plain",
            "May  1 02:04:05 host sshd[42]: error: no route",
            "May  1 02:04:05 host CRON[42]: (root) CMD (true)",
        ];
        insta::assert_snapshot!(all(&lines), @r"
        2023-10-11 22:14:15 critical | su: 'su root' failed
        2003-10-11 22:14:15Z info | An event
        2003-10-11 22:14:15Z error | plain
        2024-05-01 02:04:05 error | sshd[42]: error: no route
        2024-05-01 02:04:05 - | CRON[42]: (root) CMD (true)
        ");
    }

    #[test]
    fn json_shapes() {
        let lines = [
            r#"{"time": "2024-05-01T12:00:00Z", "level": "ERROR", "msg": "lost"}"#,
            r#"{"ts": 1714564800.5, "severity": "warn", "message": "slow", "id": 7}"#,
            r#"{"level": 50, "time": 1714564800000, "msg": "pino"}"#,
            r#"{"@timestamp": "2024-05-01T12:00:00Z", "log": {"level": "info"}, "message": "elastic"}"#,
            r#"{"timestamp": "2024-05-01T12:00:00Z", "level": "INFO", "fields": {"message": "tracing"}}"#,
            r#"{"log": "2024-05-01 12:00:00 ERROR inside\n", "stream": "stderr", "time": "2024-05-01T12:00:01Z"}"#,
            r#"{"a": 1}"#,
            r#"{"broken"#,
        ];
        insta::assert_snapshot!(all(&lines), @r#"
        2024-05-01 12:00:00Z error | lost
        2024-05-01 12:00:00Z warning | slow
        2024-05-01 12:00:00Z error | pino
        2024-05-01 12:00:00Z info | elastic
        2024-05-01 12:00:00Z info | tracing
        2024-05-01 12:00:01Z error | 2024-05-01 12:00:00 ERROR inside
        - - | {"a": 1}
        none
        "#);
    }

    #[test]
    fn what_is_no_entry() {
        for line in [
            "",
            "    at Object.<anonymous> (a.js:1:2)",
            "ValueError: x",
            "Information is power",
            "errors: 3",
            "a | b",
        ] {
            assert_eq!(parse_header(line, NOW_MS), None, "{line}");
        }
    }

    fn all(lines: &[&str]) -> String {
        let shown = |line: &&str| match parse_header(line, NOW_MS) {
            None => "none".to_owned(),
            Some(header) => {
                let time = header.time.map_or("-".to_owned(), |time| time.to_string());
                let level = header.level.map_or("-", Level::name);
                format!("{time} {level} | {}", header.message)
            }
        };
        lines.iter().map(shown).collect::<Vec<_>>().join("\n")
    }
}
