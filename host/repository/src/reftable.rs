//! References that git keeps in tables (reftable): a folder with `tables.list`, which names the tables from old to new.
//!
//! This module reads the tables of any writer, within limits, and encodes a table that moves one reference. It writes
//! no file. Git describes the format in `Documentation/technical/reftable`; a name in a newer table replaces the one in
//! an older table.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::git_file::{open_file, read_bounded};

/// Name of the folder in a git directory.
pub const FOLDER: &str = "reftable";

/// Name of the list in that folder.
pub const LIST: &str = "tables.list";

/// Bytes of the list. git joins tables, so the list names a handful.
const LIST_BYTES_MAX: u64 = 64 * 1024;

/// Bytes of all tables together: a million references.
const TABLES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Tables in a list. A longer list of git's own names does not fit into [`LIST_BYTES_MAX`].
const TABLES_MAX: usize = 2048;

/// Bytes of all references in memory. A record stores only the difference to the name before, so nine bytes in a file
/// could stand for a name of 4 KB. A million references have 150 MB.
const KEPT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes that a reference takes in addition to its name and its value.
const RECORD_BYTES: usize = 100;

/// Bytes of the longest name of a reference. git's own names are also file names.
const NAME_BYTES_MAX: usize = 4096;

/// Attempts to read the list and its tables: git may join and remove tables meanwhile.
const ATTEMPTS: usize = 5;

/// Largest log block that is written. git reads 4096 bytes of a block before it knows its length.
const LOG_BYTES_MAX: usize = 4000;

/// Bytes of a block in which git writes tables.
const BLOCK_BYTES: u32 = 4096;

/// Bytes of a log's message that are kept.
const LOG_MESSAGE_BYTES_MAX: usize = 512;

/// Value of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// An object, by the bytes of its id, and the object that a tag leads to.
    Object {
        /// The object.
        id: Vec<u8>,
        /// The object that it is a tag of.
        peeled: Option<Vec<u8>>,
    },
    /// Another reference.
    Symbolic(String),
}

/// The references of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// References by their full names: `HEAD`, `refs/heads/main`.
    pub by_name: BTreeMap<String, Reference>,
    /// Names of the tables, from old to new.
    pub tables: Vec<String>,
    /// Number of the newest change.
    pub newest_update: u64,
}

impl References {
    /// Reads the tables of a folder.
    ///
    /// # Errors
    ///
    /// The system's error, or [`io::ErrorKind::InvalidData`] where a table is damaged or too large.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            match Self::read_once(folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => failed = Some(error),
                other => return other,
            }
        }
        Err(failed.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn read_once(folder: &Path) -> io::Result<Self> {
        let list = read_file(&folder.join(LIST), LIST_BYTES_MAX)?;
        let list = String::from_utf8(list).map_err(|_| damaged_table(LIST))?;
        let mut found = Self::default();
        let (mut bytes_left, mut kept_left) = (TABLES_BYTES_MAX, KEPT_BYTES_MAX);
        for name in list.lines() {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_name = !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain);
            if !is_name || found.tables.len() == TABLES_MAX {
                return Err(damaged_table(LIST));
            }
            let table = read_file(&folder.join(name), bytes_left)?;
            bytes_left -= table.len() as u64;
            found.add(&table, &mut kept_left).ok_or_else(|| damaged_table(name))?;
            found.tables.push(name.to_owned());
        }
        Ok(found)
    }

    /// Adds the references of a newer table. `kept_left` is the number of bytes that may still be kept.
    fn add(&mut self, table: &[u8], kept_left: &mut usize) -> Option<()> {
        let header = Header::parse(table)?;
        let end = table.len().checked_sub(header.footer_bytes())?;
        let (footer, sum) = table[end..].split_last_chunk::<4>()?;
        if crc32(footer) != u32::from_be_bytes(*sum) || !footer.starts_with(&table[..header.bytes]) {
            return None;
        }
        self.newest_update = self.newest_update.max(header.newest_update);
        let (mut at, mut last) = (0, Vec::new());
        loop {
            let start = if at == 0 { header.bytes } else { 0 };
            let block = &table[at..end];
            if block.get(start) != Some(&b'r') {
                return Some(());
            }
            let length = Reader(block.get(start + 1..)?).number(3)?;
            let length = usize::try_from(length).ok()?;
            let records = block.get(..length)?;
            let (rest, restarts) = records.split_last_chunk::<2>()?;
            let restarts = 3 * usize::from(u16::from_be_bytes(*restarts));
            let records = rest.get(start + 4..rest.len().checked_sub(restarts)?)?;
            self.add_records(records, header.name_bytes, &mut last, kept_left)?;
            // A short block is padded with zeros to the block size, or the next block follows immediately.
            let is_followed = block.get(length).is_some_and(|&next| next != 0);
            at += if is_followed {
                length
            } else {
                length.max(header.block_bytes)
            };
            if at >= end {
                return Some(());
            }
        }
    }

    /// Adds the records of a block. `last` is the previous name, also across blocks, because the names of a table
    /// ascend.
    fn add_records(
        &mut self,
        records: &[u8],
        name_bytes: usize,
        last: &mut Vec<u8>,
        kept_left: &mut usize,
    ) -> Option<()> {
        let mut reader = Reader(records);
        let mut name = Vec::new();
        while !reader.0.is_empty() {
            let prefix = reader.length()?;
            let suffix = reader.varint()?;
            let kind = suffix & 7;
            let suffix = reader.bytes(usize::try_from(suffix >> 3).ok()?)?;
            if prefix > name.len() || prefix + suffix.len() > NAME_BYTES_MAX {
                return None;
            }
            name.truncate(prefix);
            name.extend_from_slice(suffix);
            *kept_left = kept_left.checked_sub(RECORD_BYTES + name.len())?;
            if name <= *last {
                return None;
            }
            last.clone_from(&name);
            reader.varint()?;
            let before = reader.0.len();
            let value = match kind {
                0 => None,
                1 => Some(Reference::Object {
                    id: reader.bytes(name_bytes)?.to_vec(),
                    peeled: None,
                }),
                2 => Some(Reference::Object {
                    id: reader.bytes(name_bytes)?.to_vec(),
                    peeled: Some(reader.bytes(name_bytes)?.to_vec()),
                }),
                3 => {
                    let length = reader.length().filter(|length| *length <= NAME_BYTES_MAX)?;
                    Some(Reference::Symbolic(
                        String::from_utf8(reader.bytes(length)?.to_vec()).ok()?,
                    ))
                }
                _ => return None,
            };
            *kept_left = kept_left.checked_sub(before - reader.0.len())?;
            // libgit2 accepts only names in UTF-8.
            let Ok(name) = std::str::from_utf8(&name) else { continue };
            match value {
                Some(value) => self.by_name.insert(name.to_owned(), value),
                None => self.by_name.remove(name),
            };
        }
        Some(())
    }

    /// The object to which a name leads. Follows one symbolic reference.
    pub fn resolve(&self, name: &str) -> Option<&[u8]> {
        let found = match self.by_name.get(name)? {
            Reference::Symbolic(name) => self.by_name.get(name)?,
            object @ Reference::Object { .. } => object,
        };
        match found {
            Reference::Object { id, .. } => Some(id),
            Reference::Symbolic(_) => None,
        }
    }
}

/// First bytes of a table.
struct Header {
    bytes: usize,
    block_bytes: usize,
    newest_update: u64,
    /// Bytes of an object's name.
    name_bytes: usize,
}

impl Header {
    fn parse(table: &[u8]) -> Option<Self> {
        let mut reader = Reader(table.strip_prefix(b"REFT")?);
        let version = reader.number(1)?;
        let block_bytes = usize::try_from(reader.number(3)?).ok()?;
        reader.number(8)?;
        // The next change needs a number too.
        let newest_update = reader.number(8).filter(|newest| *newest < u64::MAX)?;
        let (bytes, name_bytes) = match version {
            1 => (24, 20),
            2 => match reader.bytes(4)? {
                b"sha1" => (28, 20),
                b"s256" => (28, 32),
                _ => return None,
            },
            _ => return None,
        };
        Some(Self {
            bytes,
            block_bytes,
            newest_update,
            name_bytes,
        })
    }

    /// Bytes of the footer: the header again, five positions and a checksum.
    fn footer_bytes(&self) -> usize {
        self.bytes + 5 * 8 + 4
    }
}

/// Takes numbers off the beginning of bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of `bytes` bytes, big-endian.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let bytes = self.bytes(bytes)?;
        Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// A number of variable length, in the encoding of git's pack offsets.
    fn varint(&mut self) -> Option<u64> {
        let mut byte = self.number(1)?;
        let mut number = byte & 0x7f;
        while byte & 0x80 != 0 {
            byte = self.number(1)?;
            number = number.checked_add(1)?.checked_mul(0x80)? | byte & 0x7f;
        }
        Some(number)
    }

    /// A length, as a number of variable length.
    pub(crate) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }
}

fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    path.symlink_metadata()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let read = open_file(path).and_then(|(file, _)| read_bounded(file, bytes_max));
    read.ok_or_else(|| damaged_table(&name))
}

fn damaged_table(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the references in `{FOLDER}/{name}` cannot be read"),
    )
}

/// A line of a reference's log.
#[derive(Debug, Clone, Copy)]
pub struct LogLine<'a> {
    /// Name of the reference.
    pub reference: &'a str,
    /// The object to which it led before.
    pub old: Option<&'a [u8]>,
    /// The object to which it leads now.
    pub new: &'a [u8],
    /// Name and email address of the user who moved it.
    pub person: (&'a str, &'a str),
    /// Time of the move: seconds since 1970, and minutes east of Greenwich.
    pub moment: (u64, i32),
    /// Reason for the move.
    pub message: &'a str,
}

/// Encodes a table with one change. `update` is its number, `references` are the references that it sets, and `logs`
/// the lines of their logs, both sorted by name. A log that is too long is left out.
pub fn encode_table(update: u64, is_sha256: bool, references: &[(&str, Reference)], logs: &[LogLine<'_>]) -> Vec<u8> {
    let mut header = b"REFT".to_vec();
    header.push(if is_sha256 { 2 } else { 1 });
    header.extend(&BLOCK_BYTES.to_be_bytes()[1..]);
    header.extend([update.to_be_bytes(), update.to_be_bytes()].concat());
    if is_sha256 {
        header.extend(b"s256");
    }
    let mut bytes = header.clone();
    if !references.is_empty() {
        let mut records = Vec::new();
        for (name, value) in references {
            put_reference(&mut records, name, value);
        }
        let first = bytes.len();
        put_block(&mut bytes, b'r', first + 4 + records.len() + 5, first, &records);
    }
    let mut records = Vec::new();
    for line in logs {
        put_log(&mut records, update, line);
    }
    let log_at = if references.is_empty() { 0 } else { bytes.len() };
    let before = bytes.len() - log_at;
    let has_log = !logs.is_empty() && records.len() <= LOG_BYTES_MAX;
    if has_log {
        let mut block = Vec::new();
        put_block(&mut block, b'g', before + 4 + records.len() + 5, before, &records);
        bytes.extend(&block[..4]);
        bytes.extend(store_zlib(&block[4..]));
    }
    let mut footer = header;
    footer.extend([0; 24]);
    footer.extend(if has_log { log_at as u64 } else { 0 }.to_be_bytes());
    footer.extend([0; 8]);
    let sum = crc32(&footer);
    bytes.extend(footer);
    bytes.extend(sum.to_be_bytes());
    bytes
}

/// Appends a block with one restart point: its first record, at `first + 4`.
fn put_block(into: &mut Vec<u8>, kind: u8, length: usize, first: usize, records: &[u8]) {
    let three = |number: usize| (number as u32).to_be_bytes();
    into.push(kind);
    into.extend(&three(length)[1..]);
    into.extend(records);
    into.extend(&three(first + 4)[1..]);
    into.extend([0, 1]);
}

fn put_reference(into: &mut Vec<u8>, name: &str, value: &Reference) {
    let kind = match value {
        Reference::Object { peeled: None, .. } => 1,
        Reference::Object { .. } => 2,
        Reference::Symbolic(_) => 3,
    };
    put_name(into, name.as_bytes(), kind);
    put_varint(into, 0);
    match value {
        Reference::Object { id, peeled } => {
            into.extend(id);
            into.extend(peeled.iter().flatten());
        }
        Reference::Symbolic(target) => put_sized(into, target.as_bytes()),
    }
}

fn put_log(into: &mut Vec<u8>, update: u64, line: &LogLine<'_>) {
    let mut name = line.reference.as_bytes().to_vec();
    name.push(0);
    name.extend((u64::MAX - update).to_be_bytes());
    put_name(into, &name, 1);
    match line.old {
        Some(old) => into.extend(old),
        None => into.resize(into.len() + line.new.len(), 0),
    }
    into.extend(line.new);
    put_sized(into, line.person.0.as_bytes());
    put_sized(into, line.person.1.as_bytes());
    let (seconds, minutes) = line.moment;
    put_varint(into, seconds);
    // git writes the digits of the offset as in a commit: +0130 becomes 130.
    let digits = minutes / 60 * 100 + minutes % 60;
    into.extend((digits as i16).to_be_bytes());
    let message = &line.message[..line.message.floor_char_boundary(LOG_MESSAGE_BYTES_MAX)];
    put_sized(into, format!("{message}\n").as_bytes());
}

/// Appends a name that shares no prefix with the previous one.
fn put_name(into: &mut Vec<u8>, name: &[u8], kind: u64) {
    put_varint(into, 0);
    put_varint(into, (name.len() as u64) << 3 | kind);
    into.extend(name);
}

fn put_sized(into: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(into, bytes.len() as u64);
    into.extend(bytes);
}

fn put_varint(into: &mut Vec<u8>, mut number: u64) {
    let mut bytes = vec![number as u8 & 0x7f];
    while number >= 0x80 {
        number = (number >> 7) - 1;
        bytes.push(number as u8 & 0x7f | 0x80);
    }
    into.extend(bytes.iter().rev());
}

/// A zlib stream with one stored (uncompressed) block. `bytes` are fewer than 64 KiB.
fn store_zlib(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u16;
    let mut made = vec![0x78, 0x01, 0x01];
    made.extend(length.to_le_bytes());
    made.extend((!length).to_le_bytes());
    made.extend(bytes);
    let (mut one, mut two) = (1_u32, 0_u32);
    for &byte in bytes {
        one = (one + u32::from(byte)) % 65_521;
        two = (two + one) % 65_521;
    }
    made.extend((two << 16 | one).to_be_bytes());
    made
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    let next = |sum: u32, &byte: &u8| (0..8).fold(sum ^ u32::from(byte), |sum, _| step(sum));
    !bytes.iter().fold(!0, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_core::digest::to_hexadecimal;

    fn folder(tables: &[Vec<u8>]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut list = String::new();
        for (number, table) in tables.iter().enumerate() {
            list += &format!("{number}.ref\n");
            std::fs::write(folder.path().join(format!("{number}.ref")), table).expect("the folder is writable");
        }
        std::fs::write(folder.path().join(LIST), list).expect("the folder is writable");
        folder
    }

    fn object(byte: u8, bytes: usize) -> Reference {
        Reference::Object {
            id: vec![byte; bytes],
            peeled: None,
        }
    }

    /// git 2.47 made them: several blocks and tables, removed branches, a tag and a symbolic reference.
    #[test]
    fn the_tables_of_git_are_read_as_git_reads_them() {
        for format in ["sha1", "sha256"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("src/tests/reftable")
                .join(format);
            let read = References::read(&folder).expect("git made them");
            let line = |(name, value): (&String, &Reference)| match value {
                Reference::Symbolic(target) => format!("{name} {target}\n"),
                Reference::Object { id, peeled } => {
                    let peeled = peeled.as_ref().map(|id| format!(" {}", to_hexadecimal(id)));
                    format!("{name} {}{}\n", to_hexadecimal(id), peeled.unwrap_or_default())
                }
            };
            let expected = std::fs::read_to_string(folder.join("references.txt")).expect("it is text");
            assert_eq!(read.by_name.iter().map(line).collect::<String>(), expected);
            assert_eq!((read.newest_update, read.tables.len()), (8, 3));
        }
    }

    #[test]
    fn a_newer_table_replaces_the_names_of_an_older_one() {
        for (is_sha256, bytes) in [(false, 20), (true, 32)] {
            let head = ("HEAD", Reference::Symbolic("refs/heads/main".to_owned()));
            let tag = Reference::Object {
                id: vec![3; bytes],
                peeled: Some(vec![1; bytes]),
            };
            let old = [
                head,
                ("refs/heads/main", object(1, bytes)),
                ("refs/tags/v1", tag.clone()),
            ];
            let new = [("refs/heads/main", object(2, bytes))];
            let folder = folder(&[
                encode_table(1, is_sha256, &old, &[]),
                encode_table(7, is_sha256, &new, &[]),
            ]);
            let read = References::read(folder.path()).expect("both are whole");
            assert_eq!(read.resolve("HEAD"), Some([2].repeat(bytes).as_slice()));
            assert_eq!(read.by_name.get("refs/tags/v1"), Some(&tag));
            assert_eq!((read.newest_update, read.tables.len()), (7, 2));
        }
    }

    /// Reads a folder with one table.
    fn read_one(table: Vec<u8>) -> io::Result<References> {
        References::read(folder(&[table]).path())
    }

    /// A table of so many names of 4006 bytes, each of which takes nearly all over from the one before it.
    fn shortened_table(count: usize) -> Vec<u8> {
        let (mut records, mut before) = (Vec::new(), String::new());
        for at in 0..count {
            let name = format!("{}{at:06}", "x".repeat(4_000));
            let same = before.bytes().zip(name.bytes()).take_while(|(one, other)| one == other);
            let same = same.count();
            put_varint(&mut records, same as u64);
            put_varint(&mut records, ((name.len() - same) as u64) << 3 | 3);
            records.extend(&name.as_bytes()[same..]);
            // The number of the change, and another reference of no name.
            records.extend([0, 0]);
            before = name;
        }
        let whole = encode_table(1, false, &[], &[]);
        let mut bytes = whole[..24].to_vec();
        put_block(&mut bytes, b'r', 24 + 4 + records.len() + 5, 24, &records);
        bytes.extend(&whole[24..]);
        bytes
    }

    #[test]
    fn names_that_are_written_in_a_few_bytes_take_a_bounded_memory() {
        let ten = shortened_table(10);
        let read = read_one(ten.clone()).expect("it is small");
        assert_eq!((read.by_name.len(), ten.len() < 4_500), (10, true));
        let many = shortened_table(KEPT_BYTES_MAX / 4_000);
        assert!(many.len() < 1 << 20, "{}", many.len());
        read_one(many).expect_err("it stands for more than is kept");
        // The bound is on all tables together.
        let (mut found, mut left) = (References::default(), 80_000);
        assert_eq!(found.add(&ten, &mut left), Some(()));
        assert_eq!(left, 80_000 - 10 * (4_006 + RECORD_BYTES + 1));
        assert_eq!(found.add(&ten, &mut left), None);
    }

    #[test]
    fn names_of_a_table_ascend() {
        let of = |names: &[&str]| {
            let references: Vec<_> = names.iter().map(|name| (*name, object(1, 20))).collect();
            read_one(encode_table(1, false, &references, &[]))
        };
        of(&["a", "b"]).expect("they ascend");
        for names in [["b", "a"], ["a", "a"], ["", "a"]] {
            of(&names).expect_err("they do not ascend");
        }
    }

    #[test]
    fn a_list_names_a_bounded_number_of_tables() {
        let folder = folder(&[encode_table(1, false, &[("HEAD", object(1, 20))], &[])]);
        let read = |count: usize| {
            std::fs::write(folder.path().join(LIST), "0.ref\n".repeat(count)).expect("the folder is writable");
            References::read(folder.path())
        };
        read(TABLES_MAX).expect("it is as long as it may be");
        read(TABLES_MAX + 1).expect_err("it is too long");
    }

    #[test]
    fn the_last_number_of_a_change_is_refused() {
        let newest = |update| read_one(encode_table(update, false, &[], &[])).map(|read| read.newest_update);
        assert_eq!(newest(u64::MAX - 1).ok(), Some(u64::MAX - 1));
        assert_eq!(newest(u64::MAX).ok(), None);
    }

    #[test]
    fn a_cut_table_and_a_changed_header_or_footer_are_errors_and_no_answer() {
        let whole = encode_table(1, false, &[("refs/heads/main", object(1, 20))], &[]);
        read_one(whole.clone()).expect("it is whole");
        for at in 0..whole.len() {
            read_one(whole[..at].to_vec()).expect_err("it is cut");
        }
        let header = Header::parse(&whole).expect("it has one");
        let footer = whole.len() - header.footer_bytes()..whole.len();
        for at in (0..header.bytes).chain(footer) {
            for bits in [0x01, 0xff] {
                let mut other = whole.clone();
                other[at] ^= bits;
                read_one(other).expect_err("the checksum is over it");
            }
        }
    }

    /// Without a checksum over it, another name or another object is a whole table, too.
    #[test]
    fn a_changed_block_is_read_without_a_panic() {
        let whole = encode_table(1, false, &[("refs/heads/main", object(1, 20))], &[]);
        let header = Header::parse(&whole).expect("it has one");
        for at in header.bytes..whole.len() - header.footer_bytes() {
            for bits in [0x01, 0x80, 0xff] {
                let mut other = whole.clone();
                other[at] ^= bits;
                if let Ok(read) = read_one(other) {
                    assert_eq!(read.tables, ["0.ref"]);
                }
            }
        }
    }

    #[test]
    fn a_list_names_tables_of_its_own_folder_alone() {
        let list = folder(&[]);
        for name in ["../0.ref", "/etc/passwd", ".", ""] {
            std::fs::write(list.path().join(LIST), format!("{name}\n")).expect("the folder is writable");
            References::read(list.path()).expect_err(name);
        }
    }

    #[test]
    fn numbers_and_sums_are_those_of_git() {
        for number in [0, 127, 128, 16_511, 16_512, 1 << 40] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(Reader(&bytes).varint(), Some(number));
        }
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(store_zlib(b"a"), b"\x78\x01\x01\x01\x00\xfe\xffa\x00\x62\x00\x62");
    }
}
