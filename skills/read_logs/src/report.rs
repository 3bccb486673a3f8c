//! Summarises a window of a log: counts by level, repeated messages, and the last entries.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

use skill_sdk::pattern::Pattern;
use skill_sdk::text::{clip, counted};

use crate::entries::LogEntry;
use crate::parse::Level;
use crate::time::LogTime;

/// Limit for different messages with a group each; others are only counted.
const GROUPS_MAX: usize = 10_000;
/// Limit for the groups in an answer.
const GROUPS_SHOWN: usize = 15;
/// Limit for the message of a group in bytes.
const MESSAGE_BYTES_MAX: usize = 200;
/// Limit for the text of the last entries in bytes, so that the answer fits a model's window.
const TAIL_BYTES_MAX: usize = 48 * 1024;
/// Limit for a line in bytes.
const LINE_BYTES_MAX: usize = 500;
/// Lines that are shown from the beginning and from the end of an entry.
const ENTRY_LINES: (usize, usize) = (12, 12);

#[derive(Debug, Default)]
pub(crate) struct EntryFilter {
    pub(crate) level: Option<Level>,
    pub(crate) since: Option<LogTime>,
    pub(crate) until: Option<LogTime>,
    pub(crate) pattern: Option<Pattern>,
}

impl EntryFilter {
    /// True if an entry matches in everything but its level.
    fn takes(&self, entry: &LogEntry, text: &[u8]) -> bool {
        let in_time = match entry.time {
            Some(time) => {
                self.since.is_none_or(|since| time.ms >= since.ms) && self.until.is_none_or(|until| time.ms <= until.ms)
            }
            None => self.since.is_none() && self.until.is_none(),
        };
        in_time && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}

/// Entries with the same message, apart from numbers.
#[derive(Debug)]
struct MessageGroup {
    level: Option<Level>,
    count: u64,
    first: Option<LogTime>,
    last: Option<LogTime>,
}

/// An entry by range and line.
#[derive(Debug)]
struct LastEntry {
    range: std::ops::Range<usize>,
    line: u64,
}

/// The last entries of a window, as text.
pub(crate) struct LastEntries {
    pub(crate) text: String,
    /// Offset of the first of them in the window.
    pub(crate) start: usize,
    /// True if these are all selected entries.
    pub(crate) is_all: bool,
}

/// The result of a call.
#[derive(Debug, Default)]
pub(crate) struct LogReport {
    tail: usize,
    pub(crate) entries: u64,
    /// Number of entries by level that match in everything else; the last is for entries without a level.
    levels: [u64; 7],
    selected: u64,
    first: Option<LogTime>,
    last: Option<LogTime>,
    groups: HashMap<String, MessageGroup>,
    kept: VecDeque<LastEntry>,
    /// Offset of the first entry that was read.
    pub(crate) first_at: Option<usize>,
}

impl LogReport {
    /// Creates a report that keeps the last `tail` entries.
    pub(crate) fn new(tail: usize) -> Self {
        Self {
            tail,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, entry: &LogEntry, window: &[u8], filter: &EntryFilter) {
        self.entries += 1;
        self.first_at.get_or_insert(entry.range.start);
        let own = entry.time.filter(|_| entry.has_time);
        self.first = self.first.or(own);
        self.last = own.or(self.last);
        if !filter.takes(entry, &window[entry.range.clone()]) {
            return;
        }
        self.levels[entry.level.map_or(6, |level| level as usize)] += 1;
        if filter
            .level
            .is_some_and(|least| entry.level.is_none_or(|level| level < least))
        {
            return;
        }
        self.selected += 1;
        self.group(entry);
        self.kept.push_back(LastEntry {
            range: entry.range.clone(),
            line: entry.line,
        });
        if self.kept.len() > self.tail {
            self.kept.pop_front();
        }
    }

    fn group(&mut self, entry: &LogEntry) {
        let key = normalise_message(clip(&entry.message, MESSAGE_BYTES_MAX).0);
        if key.is_empty() || (self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key)) {
            return;
        }
        let group = self.groups.entry(key).or_insert(MessageGroup {
            level: entry.level,
            count: 0,
            first: entry.time,
            last: entry.time,
        });
        group.count += 1;
        group.level = group.level.max(entry.level);
        group.last = entry.time;
    }

    /// The first and the last time of the entries.
    pub(crate) fn times(&self) -> Option<(LogTime, LogTime)> {
        self.first.zip(self.last)
    }

    /// The summary: `120 entries, 2024-05-01 12:00:00 to 2024-05-01 13:00:00: 2 error, 118 info`.
    pub(crate) fn summary(&self, filter: &EntryFilter) -> String {
        let mut text = counted(self.entries, "entry", "entries");
        if let Some((first, last)) = self.times() {
            let _ = write!(text, ", {first} to {last}");
        }
        let fitting: u64 = self.levels.iter().sum();
        if fitting < self.entries {
            let _ = write!(text, "; {fitting} of them fit");
        }
        let mut levels: Vec<String> = Level::ALL
            .into_iter()
            .map(|level| (self.levels[level as usize], level.name()))
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        if self.levels[6] > 0 {
            levels.push(format!("{} without a level", self.levels[6]));
        }
        if !levels.is_empty() {
            let _ = write!(text, ": {}", levels.join(", "));
        }
        if let Some(level) = filter.level {
            let _ = write!(
                text,
                "\nLevel {} and above: {}",
                level.name(),
                counted(self.selected, "entry", "entries")
            );
        }
        text
    }

    /// Messages that occur more than once, the most frequent first; empty if there are none.
    pub(crate) fn repeated(&self) -> String {
        let mut groups: Vec<(&String, &MessageGroup)> =
            self.groups.iter().filter(|(_, group)| group.count > 1).collect();
        if groups.is_empty() {
            return String::new();
        }
        groups.sort_by(|(a, one), (b, other)| {
            (other.count, other.level)
                .cmp(&(one.count, one.level))
                .then_with(|| a.cmp(b))
        });
        let mut text = "Repeated:".to_owned();
        for (message, group) in groups.iter().take(GROUPS_SHOWN) {
            let level = group.level.map_or("-", Level::name);
            let _ = write!(text, "\n{:>7}x {level:<8} ", group.count);
            match group.first.zip(group.last) {
                Some((first, last)) if first != last => {
                    let _ = write!(text, "{first} to {last}  ");
                }
                Some((only, _)) => {
                    let _ = write!(text, "{only}  ");
                }
                None => {}
            }
            text.push_str(message);
        }
        if groups.len() > GROUPS_SHOWN {
            let _ = write!(text, "\n… and {} more", groups.len() - GROUPS_SHOWN);
        }
        text
    }

    /// The last entries. Lines are numbered from `numbered`.
    pub(crate) fn last(&self, window: &[u8], numbered: Option<u64>) -> Option<LastEntries> {
        let mut shown = Vec::new();
        let mut bytes = 0;
        let mut start = None;
        for kept in self.kept.iter().rev() {
            let text = entry_text(&window[kept.range.clone()], numbered.map(|first| first + kept.line));
            if bytes + text.len() > TAIL_BYTES_MAX && start.is_some() {
                break;
            }
            bytes += text.len();
            start = Some(kept.range.start);
            shown.push(text);
        }
        shown.reverse();
        let is_all = shown.len() as u64 == self.selected;
        let heading = match shown.len() as u64 {
            1 if self.selected == 1 => "The entry:".to_owned(),
            all if is_all => format!("All {all} entries:"),
            last => format!("The last {last} of {} entries:", self.selected),
        };
        start.map(|start| LastEntries {
            text: format!("{heading}{}", shown.concat()),
            start,
            is_all,
        })
    }
}

/// Lines of an entry, each after a line feed; the middle of a long entry is left out.
fn entry_text(entry: &[u8], number: Option<u64>) -> String {
    let text = String::from_utf8_lossy(entry);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let (head, end) = ENTRY_LINES;
    // The note that a line is left out takes a line as well.
    let hidden = if lines.len() > head + end + 1 {
        head..lines.len() - end
    } else {
        0..0
    };
    let mut shown = String::new();
    for (at, line) in lines.iter().enumerate() {
        if hidden.contains(&at) {
            if at == hidden.start {
                let _ = write!(shown, "\n… [{} more lines]", hidden.len());
            }
            continue;
        }
        shown.push('\n');
        if let Some(number) = number {
            let _ = write!(shown, "{:>6}\t", number + at as u64);
        }
        let (line, cut) = clip(line, LINE_BYTES_MAX);
        shown.push_str(line);
        if cut > 0 {
            let _ = write!(shown, "… [{cut} more bytes]");
        }
    }
    shown
}

/// Replaces the variable parts of a message: numbers, addresses, identifiers.
fn normalise_message(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        // A full stop or a dash at the end is punctuation.
        let word = rest[..end].trim_end_matches(['.', '-']);
        text.push_str(&normalised_word(word));
        rest = &rest[word.len()..];
        if let Some(next) = rest.chars().next().filter(|c| !c.is_ascii_alphanumeric()) {
            text.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    text.push_str(rest);
    text.trim().to_owned()
}

fn normalised_word(word: &str) -> String {
    let bytes = word.as_bytes();
    if !bytes.iter().any(u8::is_ascii_digit) {
        return word.to_owned();
    }
    let is_uuid = bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if is_uuid {
        return "<uuid>".to_owned();
    }
    let octets: Vec<&str> = word.split('.').collect();
    if octets.len() == 4 && octets.iter().all(|octet| octet.parse::<u8>().is_ok()) {
        return "<ip>".to_owned();
    }
    if is_hex(word) {
        return "<hex>".to_owned();
    }
    // Digits within a word: `worker12`, `1.5ms`, `a-7f3e9b1c2d`.
    let mut text = String::new();
    for part in word.split_inclusive(['-', '_']) {
        let bare = part.trim_end_matches(['-', '_']);
        let separator = &part[bare.len()..];
        text.push_str(if is_hex(bare) { "<hex>" } else { "" });
        if !is_hex(bare) {
            text.push_str(&without_numbers(bare));
        }
        text.push_str(separator);
    }
    text
}

/// True for `0x1f`, or at least eight hexadecimal digits with a digit and a letter.
fn is_hex(word: &str) -> bool {
    let all = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    match word.strip_prefix("0x") {
        Some(digits) => all(digits),
        None => word.len() >= 8 && all(word) && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic),
    }
}

/// Replaces every number in a word by `<n>`, including decimal points.
fn without_numbers(word: &str) -> String {
    let mut text = String::new();
    let mut in_number = false;
    let bytes = word.as_bytes();
    for (at, character) in word.char_indices() {
        let is_point = character == '.' && in_number && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        match character.is_ascii_digit() || is_point {
            true if in_number => {}
            true => {
                in_number = true;
                text.push_str("<n>");
            }
            false => {
                in_number = false;
                text.push(character);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::normalise_message;

    #[test]
    fn what_differs_is_replaced() {
        let all = [
            "connection to 10.0.0.17:5432 refused after 1.5ms (attempt 3)",
            "user 550e8400-e29b-41d4-a716-446655440000 not found",
            "commit deadbeef01 at 0x7fff5fbff8c0 by worker-12",
            "pod api-7f3e9b1c2d-x is down.",
            "GET /items/42?page=7 200",
            "version 2.0.1-beta3 of ünïcode 9",
            "nothing to replace here...",
            "",
        ]
        .map(normalise_message);
        insta::assert_snapshot!(all.join("\n"), @r"
        connection to <ip>:<n> refused after <n>ms (attempt <n>)
        user <uuid> not found
        commit <hex> at <hex> by worker-<n>
        pod api-<hex>-x is down.
        GET /items/<n>?page=<n> <n>
        version <n>-beta<n> of ünïcode <n>
        nothing to replace here...
        ");
    }
}
