//! Times in logs. There are no time zones, only fixed offsets: a time without an offset is taken as written.

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogTime {
    /// Milliseconds since 1970, in UTC if `zoned`, otherwise as written.
    pub(crate) ms: i64,
    /// True if the text had an offset.
    pub(crate) zoned: bool,
}

const DAY_MS: i64 = 86_400_000;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl LogTime {
    /// Converts a number of seconds, milliseconds, microseconds or nanoseconds, depending on its size.
    pub(crate) fn from_number(number: f64) -> Option<Self> {
        let ms = match number.abs() {
            seconds if seconds < 1e8 => return None,
            seconds if seconds < 1e11 => number * 1e3,
            millis if millis < 1e14 => number,
            micros if micros < 1e17 => number / 1e3,
            nanos if nanos < 1e20 => number / 1e6,
            _ => return None,
        };
        Some(Self {
            ms: ms as i64,
            zoned: true,
        })
    }
}

impl std::fmt::Display for LogTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = civil_from_days(self.ms.div_euclid(DAY_MS));
        let seconds = self.ms.rem_euclid(DAY_MS) / 1000;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let zone = if self.zoned { "Z" } else { "" };
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{zone}"
        )
    }
}

/// Days since 1970 of a date in the Gregorian calendar. A year begins in March, so that the leap day is its last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Reads bytes one after the other. A function that does not match leaves the position unchanged.
struct TimeReader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> TimeReader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text: text.as_bytes(),
            at: 0,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let byte = self.peek().filter(|byte| bytes.contains(byte))?;
        self.at += 1;
        Some(byte)
    }

    /// Reads a number of exactly `digits` digits, from `least` to `most`.
    fn number(&mut self, digits: usize, least: i64, most: i64) -> Option<i64> {
        let text = self.text.get(self.at..self.at + digits)?;
        let mut value = 0;
        for byte in text {
            value = value * 10 + i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
        }
        (least..=most).contains(&value).then(|| {
            self.at += digits;
            value
        })
    }

    /// Reads the name of a month, by its first three letters.
    fn month(&mut self) -> Option<i64> {
        let name = self.text.get(self.at..self.at + 3)?;
        let month = MONTHS.iter().position(|month| month.as_bytes() == name)?;
        self.at += 3;
        Some(month as i64 + 1)
    }

    /// Reads `12:34`, `12:34:56` or `12:34:56.789`, also with a comma. Returns milliseconds.
    fn clock(&mut self) -> Option<i64> {
        let hour = self.number(2, 0, 23)?;
        self.one_of(b":")?;
        let minute = self.number(2, 0, 59)?;
        let mut ms = (hour * 60 + minute) * 60_000;
        if self.peek() != Some(b':') {
            return Some(ms);
        }
        self.at += 1;
        ms += self.number(2, 0, 60)? * 1000;
        let has_fraction =
            matches!(self.peek(), Some(b'.' | b',')) && self.text.get(self.at + 1).is_some_and(u8::is_ascii_digit);
        if has_fraction {
            self.at += 1;
            let mut unit = 100;
            while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
                ms += i64::from(digit - b'0') * unit;
                unit /= 10;
                self.at += 1;
            }
        }
        Some(ms)
    }

    /// Reads `Z`, `UTC`, `+02:00` or `-0700`, also after a space. Returns the offset in milliseconds.
    fn zone(&mut self) -> Option<i64> {
        let before = self.at;
        let found = self.zone_here();
        if found.is_none() {
            self.at = before;
        }
        found
    }

    fn zone_here(&mut self) -> Option<i64> {
        let spaced = self.one_of(b" ").is_some();
        let rest = &self.text[self.at..];
        for name in [b"UTC", b"GMT"] {
            if rest.starts_with(name) {
                self.at += name.len();
                return Some(0);
            }
        }
        let sign = match self.one_of(b"Zz+-")? {
            b'Z' | b'z' if spaced => return None,
            b'Z' | b'z' => return Some(0),
            b'+' => 1,
            _ => -1,
        };
        let hours = self.number(2, 0, 23)?;
        self.one_of(b":");
        let minutes = self.number(2, 0, 59)?;
        Some(sign * (hours * 60 + minutes) * 60_000)
    }

    /// Reads the time zone at the end, if there is one.
    fn finish(&mut self, local_ms: i64) -> LogTime {
        match self.zone() {
            Some(offset) => LogTime {
                ms: local_ms - offset,
                zoned: true,
            },
            None => LogTime {
                ms: local_ms,
                zoned: false,
            },
        }
    }
}

/// Reads `2024-05-01` or `2024/05/01`, with `T` or a space and a time.
fn read_iso(reader: &mut TimeReader<'_>) -> Option<LogTime> {
    let day = iso_day(reader)?;
    reader.one_of(b"T t_")?;
    let ms = reader.clock()?;
    Some(reader.finish(day + ms))
}

fn iso_day(reader: &mut TimeReader<'_>) -> Option<i64> {
    let year = reader.number(4, 1970, 2199)?;
    let separator = reader.one_of(b"-/")?;
    let month = reader.number(2, 1, 12)?;
    reader.one_of(&[separator])?;
    let day = reader.number(2, 1, 31)?;
    Some(days_from_civil(year, month, day) * DAY_MS)
}

/// Reads `10/Oct/2000:13:55:36 -0700` of access logs.
fn read_access_log_time(reader: &mut TimeReader<'_>) -> Option<LogTime> {
    let day = reader.number(2, 1, 31)?;
    reader.one_of(b"/")?;
    let month = reader.month()?;
    reader.one_of(b"/")?;
    let year = reader.number(4, 1970, 2199)?;
    reader.one_of(b":")?;
    let ms = reader.clock()?;
    Some(reader.finish(days_from_civil(year, month, day) * DAY_MS + ms))
}

/// Reads `Oct 11 22:14:15` of syslog, or `Wed Oct 11 14:32:52.123 2000` of `ctime`. Without a year, the latest year
/// is chosen that puts the time before `now_ms`.
fn read_named_month(reader: &mut TimeReader<'_>, now_ms: i64) -> Option<LogTime> {
    const WEEKDAYS: [&[u8]; 7] = [b"Mon ", b"Tue ", b"Wed ", b"Thu ", b"Fri ", b"Sat ", b"Sun "];
    if WEEKDAYS.iter().any(|day| reader.text[reader.at..].starts_with(day)) {
        reader.at += 4;
    }
    let month = reader.month()?;
    reader.one_of(b" ")?;
    let day = match reader.one_of(b" ") {
        Some(_) => reader.number(1, 1, 9)?,
        None => reader.number(2, 1, 31)?,
    };
    reader.one_of(b" ")?;
    let ms = reader.clock()?;
    let before = reader.at;
    if let Some(year) = reader.one_of(b" ").and_then(|_| reader.number(4, 1970, 2199)) {
        return Some(reader.finish(days_from_civil(year, month, day) * DAY_MS + ms));
    }
    reader.at = before;
    let (year, ..) = civil_from_days(now_ms.div_euclid(DAY_MS));
    let in_year = |year| days_from_civil(year, month, day) * DAY_MS + ms;
    // Allow a day for clocks and zones that differ.
    let year = if in_year(year) > now_ms + DAY_MS {
        year - 1
    } else {
        year
    };
    Some(LogTime {
        ms: in_year(year),
        zoned: false,
    })
}

/// Reads a timestamp at the beginning of `text`. Returns it with its length; the time is absent if only the hour is
/// written.
pub(crate) fn leading_timestamp(text: &str, now_ms: i64) -> Option<(Option<LogTime>, usize)> {
    type TimestampForm = fn(&mut TimeReader<'_>, i64) -> Option<LogTime>;
    let forms: [TimestampForm; 3] = [
        |reader, _| read_iso(reader),
        |reader, _| read_access_log_time(reader),
        read_named_month,
    ];
    for form in forms {
        let mut reader = TimeReader::new(text);
        if let Some(time) = form(&mut reader, now_ms) {
            return Some((Some(time), reader.at));
        }
    }
    let mut reader = TimeReader::new(text);
    reader.clock().filter(|_| reader.at >= "12:34:56".len())?;
    Some((None, reader.at))
}

/// Parses a whole text as a date, with or without a time. If `is_end`, a date means the end of the day.
pub(crate) fn parse_argument(text: &str, is_end: bool) -> Option<LogTime> {
    let text = text.trim();
    let mut reader = TimeReader::new(text);
    if let Some(time) = read_iso(&mut reader).filter(|_| reader.at == text.len()) {
        return Some(time);
    }
    let mut reader = TimeReader::new(text);
    let day = iso_day(&mut reader).filter(|_| reader.at == text.len())?;
    let ms = if is_end { day + DAY_MS - 1 } else { day };
    Some(LogTime { ms, zoned: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-06-15 00:00:00.
    const NOW_MS: i64 = 1_718_409_600_000;

    fn shown(text: &str) -> String {
        match leading_timestamp(text, NOW_MS) {
            Some((Some(time), length)) => format!("{time} | {}", &text[length..]),
            Some((None, length)) => format!("- | {}", &text[length..]),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn forms_of_timestamps() {
        let texts = [
            "2024-05-01 12:00:00,123 ERROR x",
            "2024-05-01T12:00:00.123456Z x",
            "2024-05-01T12:00:00+02:00 x",
            "2024/05/01 12:00:00 [error] x",
            "2024-05-01 12:00:00 -0700 x",
            "2024-05-01 12:00:00.123 UTC [1] x",
            "10/Oct/2000:13:55:36 -0700] x",
            "Oct 11 22:14:15 host x",
            "May  1 02:04:05 host x",
            "Wed Oct 11 14:32:52.5 2000] x",
            "12:34:56.789 [main] x",
            "12:34 tea",
            "2024-13-01 12:00:00 x",
            "2024-05-01 is a day",
            "2024-05-01 12:00:00 Zebra",
        ];
        let all: Vec<String> = texts.iter().map(|text| shown(text)).collect();
        insta::assert_snapshot!(all.join("\n"), @r"
        2024-05-01 12:00:00 |  ERROR x
        2024-05-01 12:00:00Z |  x
        2024-05-01 10:00:00Z |  x
        2024-05-01 12:00:00 |  [error] x
        2024-05-01 19:00:00Z |  x
        2024-05-01 12:00:00Z |  [1] x
        2000-10-10 20:55:36Z | ] x
        2023-10-11 22:14:15 |  host x
        2024-05-01 02:04:05 |  host x
        2000-10-11 14:32:52 | ] x
        - |  [main] x
        none
        none
        none
        2024-05-01 12:00:00 |  Zebra
        ");
    }

    #[test]
    fn arguments_are_whole() {
        let shown = |text, is_end| parse_argument(text, is_end).map(|time| time.to_string());
        assert_eq!(shown("2024-05-01", false).as_deref(), Some("2024-05-01 00:00:00"));
        assert_eq!(shown("2024-05-01", true).as_deref(), Some("2024-05-01 23:59:59"));
        assert_eq!(shown("2024-05-01T10:30", false).as_deref(), Some("2024-05-01 10:30:00"));
        assert_eq!(
            shown("2024-05-01T10:30:00Z", false).as_deref(),
            Some("2024-05-01 10:30:00Z")
        );
        assert_eq!(shown("yesterday", false), None);
        assert_eq!(shown("2024-05-01T10:30:00 or so", false), None);
    }

    #[test]
    fn numbers_are_told_apart_by_size() {
        let shown = |number| LogTime::from_number(number).map(|time| time.to_string());
        for number in [1.7e9, 1.7e12, 1.7e15, 1.7e18] {
            assert_eq!(shown(number).as_deref(), Some("2023-11-14 22:13:20Z"), "{number}");
        }
        assert_eq!(shown(12.5), None);
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for day in (-200_000..200_000).step_by(17) {
            let (year, month, date) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, date), day);
        }
        assert_eq!(civil_from_days(19_782), (2024, 2, 29));
    }
}
