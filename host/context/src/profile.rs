//! The profile of a file: a compact record of its words, definitions and imports, which the index stores.
//!
//! A profile holds the hashes of word stems with the blocks of lines that contain them, the names that the file
//! defines, and its imports as written. It depends only on the text and on the language of the path, so a digest of
//! both is its cache key. No task changes it; `file_match` reads it for one task. Definitions and imports come from the
//! lines of the text first, and from a syntax tree later; the first byte says which, and whether a program wrote the
//! text. Stored bytes may be damaged: readers then return no words and no names.

mod words;

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::ops::RangeInclusive;

use zstd::bulk::{Compressor, Decompressor};

use super::codec::{RecordReader, compute_checksum, put_bytes, put_value};
use crate::symbols::{self, ParsedImport, SymbolForm, Syntax, SyntaxOutline};
use tool_repository::file_role::{is_nameless, script_extension};
use words::StoredWords;
pub(crate) use words::{BLOCK_LINES, LINE_BYTES_MAX};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile(Vec<u8>);

/// The source of a profile's definitions and imports. It is the first byte of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolSource {
    /// The lines of the text; no thread has tried a syntax tree yet.
    Lines = 0,
    SyntaxTree = 1,
    /// The lines of the text, because no syntax tree is available.
    LinesOnly = 2,
}

/// Flag in the first byte: the text is generated.
const IS_GENERATED: u8 = 0x80;

/// Bytes before the words: the source, and the number of words and of definitions.
const HEADER_BYTES: usize = 1 + 4 + 4;

/// Names are compressed if they have this many bytes. Compressing fewer saves nothing. The upper bound limits the
/// memory that a damaged profile can make its reader allocate.
const COMPRESSED_NAMES_BYTES: RangeInclusive<usize> = 256..=1024 * 1024;

/// The fastest level of zstd. The next levels save only 2 % more.
const COMPRESSION_LEVEL: i32 = 1;

// Creating one for each profile would take longer than the compression.
thread_local! {
    static COMPRESSOR: RefCell<io::Result<Compressor<'static>>> = RefCell::new(Compressor::new(COMPRESSION_LEVEL));
    static DECOMPRESSOR: RefCell<io::Result<Decompressor<'static>>> = RefCell::new(Decompressor::new());
}

struct ProfileSections<'a> {
    words_count: u32,
    definitions: u32,
    words: StoredWords<'a>,
    /// Bytes of the names before they were compressed.
    names_bytes: usize,
    names: &'a [u8],
    imports: RecordReader<'a>,
    /// Bytes before the names.
    words_end: usize,
}

impl<'a> ProfileSections<'a> {
    fn names(&self) -> Option<Cow<'a, [u8]>> {
        if self.names.len() == self.names_bytes {
            return Some(Cow::Borrowed(self.names));
        }
        let is_bounded = COMPRESSED_NAMES_BYTES.contains(&self.names_bytes);
        let names = is_bounded.then(|| {
            DECOMPRESSOR.with_borrow_mut(|decompressor| {
                let decompressor = decompressor.as_mut().ok()?;
                decompressor.decompress(self.names, self.names_bytes).ok()
            })
        });
        names.flatten().map(Cow::Owned)
    }
}

impl Profile {
    /// The profile of a text; `None` for a file that nothing says to be code or prose: no extension, no known name, no
    /// interpreter and no mode of an editor.
    pub(crate) fn of_file(path: &str, text: &str) -> Option<Self> {
        let is_known = !is_nameless(path) || script_extension(text).is_some();
        is_known.then(|| Self::from_text(path, text))
    }

    pub(crate) fn from_text(path: &str, text: &str) -> Self {
        let symbols = ProfileSymbols::of_text(path, text);
        let mut bytes = vec![0; HEADER_BYTES];
        let words = words::write_words(text, &mut bytes);
        bytes[0] = SymbolSource::Lines as u8;
        if skill_details::is_generated(text.as_bytes()) {
            bytes[0] |= IS_GENERATED;
        }
        bytes[1..5].copy_from_slice(&words.to_le_bytes());
        bytes[5..9].copy_from_slice(&symbols.count.to_le_bytes());
        symbols.write(&mut bytes);
        bytes.shrink_to_fit();
        Self(bytes)
    }

    /// Returns the profile with the symbols of a syntax tree of the same text.
    pub(super) fn with_tree(&self, text: &str, tree: &SyntaxOutline) -> Self {
        let Some(sections) = self.sections() else {
            return self.clone();
        };
        let symbols = ProfileSymbols::of_tree(text, tree);
        let mut bytes = self.0[..sections.words_end].to_vec();
        bytes[0] = SymbolSource::SyntaxTree as u8 | bytes[0] & IS_GENERATED;
        bytes[5..9].copy_from_slice(&symbols.count.to_le_bytes());
        symbols.write(&mut bytes);
        Self(bytes)
    }

    /// Returns the profile, marked as one for which no syntax tree is available.
    pub(super) fn without_tree(&self) -> Self {
        let mut bytes = self.0.clone();
        bytes[0] = SymbolSource::LinesOnly as u8 | bytes[0] & IS_GENERATED;
        Self(bytes)
    }

    pub(super) fn symbol_source(&self) -> SymbolSource {
        match self.0.first().map(|byte| byte & !IS_GENERATED) {
            Some(1) => SymbolSource::SyntaxTree,
            Some(2) => SymbolSource::LinesOnly,
            _ => SymbolSource::Lines,
        }
    }

    /// True if the text is generated.
    pub(super) fn is_generated(&self) -> bool {
        self.0.first().is_some_and(|byte| byte & IS_GENERATED != 0)
    }

    /// Reads a stored profile; `None` if the bytes cannot be one.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let profile = Self(bytes);
        profile.sections().is_some().then_some(profile)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn sections(&self) -> Option<ProfileSections<'_>> {
        let mut reader = RecordReader(self.0.get(1..)?);
        let [words_count, definitions] = reader.read::<[[u8; 4]; 2]>()?.map(u32::from_le_bytes);
        let words = StoredWords::read(&mut reader)?;
        let words_end = self.0.len() - reader.0.len();
        let (names_bytes, names) = reader.read()?;
        Some(ProfileSections {
            words_count,
            definitions,
            words,
            names_bytes,
            names,
            imports: reader,
            words_end,
        })
    }

    pub(crate) fn words(&self) -> u32 {
        self.sections().map_or(0, |sections| sections.words_count)
    }

    pub(crate) fn definitions(&self) -> u32 {
        self.sections().map_or(0, |sections| sections.definitions)
    }

    pub(crate) fn blocks(&self) -> Vec<u32> {
        let mut blocks = Vec::new();
        if let Some(mut sections) = self.sections() {
            while let Some(words) = sections.words.blocks.read() {
                blocks.push(words);
            }
        }
        blocks
    }

    /// Occurrences of some terms as block, term and count, sorted by block. `terms` holds hashes of stems with their
    /// terms.
    pub(crate) fn hits(&self, terms: &[(u32, u16)]) -> Vec<(u32, u16, u16)> {
        let hits = self.sections().and_then(|sections| sections.words.hits(terms));
        let mut hits = hits.unwrap_or_default();
        hits.sort_unstable();
        hits
    }

    /// Calls `found` with the hash and the count of each word, in ascending order of hashes. Stops early if the profile
    /// is damaged.
    pub(crate) fn each_word(&self, found: impl FnMut(u32, u32)) {
        let _ = self.sections().and_then(|sections| sections.words.each(found));
    }

    /// Calls `found` for each defined name with the first and last line of its definition. Both are equal if the
    /// symbols come from lines, which do not tell where a definition ends.
    pub(crate) fn each_definition(&self, mut found: impl FnMut(&str, (u32, u32))) {
        let Some(names) = self.sections().and_then(|sections| sections.names()) else {
            return;
        };
        let mut names = RecordReader(&names);
        let (mut line, mut name) = (0_u32, String::new());
        while let Some((further, extent, shared, rest)) = names.read::<(u32, u32, usize, &str)>() {
            if !name.is_char_boundary(shared) {
                return;
            }
            name.truncate(shared);
            name.push_str(rest);
            line = line.saturating_add(further);
            found(&name, (line, line.saturating_add(extent)));
        }
    }

    /// A checksum of the imports. Callers compare it with an earlier one to see whether the imports changed.
    pub(crate) fn imports_checksum(&self) -> u32 {
        self.sections()
            .map_or(0, |sections| compute_checksum(sections.imports.0))
    }

    /// Calls `found` for each import, as written.
    pub(crate) fn each_import(&self, mut found: impl FnMut(ParsedImport<'_>)) {
        let Some(mut imports) = self.sections().map(|sections| sections.imports) else {
            return;
        };
        while let Some(import) = imports.read() {
            found(import);
        }
    }
}

/// Symbols of a profile, beside its words.
#[derive(Default)]
struct ProfileSymbols {
    count: u32,
    /// For each definition: the distance in lines from the definition before, its number of further lines, and its name
    /// without the prefix that it shares with the name before. Neighbouring constants often share a long prefix.
    names: Vec<u8>,
    last_name: String,
    imports: Vec<u8>,
}

impl ProfileSymbols {
    fn of_text(path: &str, text: &str) -> Self {
        let (mut symbols, mut imports, mut line) = (Self::default(), Vec::new(), 0);
        let embedded = symbols::embedded_source(path, text);
        let (path, source) = match &embedded {
            Some((path, source)) => (path.as_str(), source.as_str()),
            None => (path, text),
        };
        let Some(syntax) = Syntax::from_path(path) else {
            return symbols;
        };
        let define = |definition: symbols::ParsedDefinition<'_>| {
            symbols.define(definition.name, definition.line - line, 0);
            line = definition.line;
        };
        symbols::read_symbols(syntax, source, define, |import| put_value(&mut imports, &import));
        symbols.imports = imports;
        symbols
    }

    /// Reads the symbols from a syntax tree.
    fn of_tree(text: &str, tree: &SyntaxOutline) -> Self {
        let (mut symbols, mut line) = (Self::default(), 0);
        for (name, named) in tree
            .definitions(text)
            .filter(|(_, named)| is_searchable(named.form, named.depth))
        {
            symbols.define(name, named.line - line, named.end_line - named.line);
            line = named.line;
        }
        let mut import = |import: ParsedImport<'_>| put_value(&mut symbols.imports, &import);
        match tree.syntax() {
            // Imports of Ruby are ordinary calls: a tree says no more about them than a line does.
            Syntax::Ruby => symbols::read_symbols(Syntax::Ruby, text, |_| {}, import),
            _ => tree.each_import(text, &mut import),
        }
        symbols
    }

    fn define(&mut self, name: &str, further: u32, extent: u32) {
        let same = self.last_name.bytes().zip(name.bytes()).take_while(|(a, b)| a == b);
        let shared = name.floor_char_boundary(same.count());
        put_value(&mut self.names, &(further, extent, shared, &name[shared..]));
        self.last_name.replace_range(shared.., &name[shared..]);
        self.count += 1;
    }

    fn write(&self, into: &mut Vec<u8>) {
        put_value(into, &self.names.len());
        put_bytes(into, &compress_names(&self.names));
        into.extend_from_slice(&self.imports);
    }
}

/// Compresses names, unless that makes them no shorter. A reader tells both forms apart by the stored length.
fn compress_names(names: &[u8]) -> Cow<'_, [u8]> {
    let is_wanted = COMPRESSED_NAMES_BYTES.contains(&names.len());
    let compressed = is_wanted.then(|| {
        COMPRESSOR.with_borrow_mut(|compressor| {
            let compressor = compressor.as_mut().ok()?;
            compressor.compress(names).ok()
        })
    });
    let shorter = compressed.flatten().filter(|compressed| compressed.len() < names.len());
    shorter.map_or(Cow::Borrowed(names), Cow::Owned)
}

/// True for symbols that a user may search for by name. Names of fields and attributes are so common that files with
/// them would look relevant to nearly every task.
fn is_searchable(form: SymbolForm, depth: u32) -> bool {
    form != SymbolForm::Value || depth == 0
}

/// Overwrites a part of a profile with `bytes` and reads it: damaged bytes must not lead to places outside of the file.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_damaged_profile(path: &str, text: &str, bytes: &[u8]) {
    let mut damaged = Profile::from_text(path, text).0;
    let from = bytes.first().map_or(0, |byte| usize::from(*byte)) % damaged.len();
    damaged
        .iter_mut()
        .skip(from)
        .zip(bytes)
        .for_each(|(into, byte)| *into = *byte);
    if bytes.len() % 2 == 1 {
        damaged.truncate(from + bytes.len());
    }
    let Some(profile) = Profile::from_bytes(damaged) else {
        return;
    };
    let blocks = profile.blocks().len();
    let mut terms = Vec::new();
    profile.each_word(|hash, _| terms.push((hash, 0)));
    assert!(profile.hits(&terms).iter().all(|hit| (hit.0 as usize) < blocks));
    profile.each_definition(|_, _| {});
    profile.each_import(|_| {});
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::words::{hash, stem_word};

    const TEXT: &str = "import os\nfrom ..pkg import one\n\ndef retry_later(request):\n    retry = request.retry\n\n\n\n\n\n\
                        class Queue:\n    def retry(self): pass\n";

    fn terms(words: &[&str]) -> Vec<(u32, u16)> {
        let mut terms: Vec<(u32, u16)> = (0..)
            .zip(words)
            .map(|(at, word)| (hash(stem_word(word.as_bytes())), at))
            .collect();
        terms.sort_unstable();
        terms
    }

    #[test]
    fn a_profile_says_where_words_are_and_what_is_defined_and_imported() {
        let profile = Profile::from_text("a.py", TEXT);
        assert_eq!((profile.words(), profile.definitions()), (19, 3));
        assert_eq!(profile.blocks(), [13, 6]);
        let hits = profile.hits(&terms(&["retrying", "queue", "retrylater", "absent", "requests"]));
        assert_eq!(hits, [(0, 0, 3), (0, 2, 1), (0, 4, 2), (1, 0, 1), (1, 1, 1)]);
        let mut defined = Vec::new();
        profile.each_definition(|name, (line, _)| defined.push(format!("{line}:{name}")));
        assert_eq!(defined, ["4:retry_later", "11:Queue", "12:retry"]);
        let mut imports = Vec::new();
        profile.each_import(|import| imports.push(format!("{import:?}")));
        assert_eq!(
            imports,
            [
                "Python { level: 0, module: \"os\", name: None }",
                "Python { level: 2, module: \"pkg\", name: Some(\"one\") }",
            ]
        );
        assert_eq!(Profile::from_bytes(profile.bytes().to_vec()), Some(profile));
    }

    #[test]
    fn imports_of_every_language_come_back() {
        for (path, text, expected) in [
            ("a.ts", "import './side';", "Path(\"./side\")"),
            ("a.rs", "mod one;", "RustModule(\"one\")"),
            ("a.rs", "use crate::a::B;", "RustUse(\"crate::a::B\")"),
            ("a.go", "import \"fmt\"", "Go(\"fmt\")"),
            ("A.java", "import a.b.C;", "Java(\"a.b.C\")"),
        ] {
            let mut imports = Vec::new();
            Profile::from_text(path, text).each_import(|import| imports.push(format!("{import:?}")));
            assert_eq!(imports, [expected]);
        }
    }

    #[test]
    fn names_that_share_their_beginning_come_back() {
        let text = "ONE_A = 1\nONE_B = 2\nÄÖ = 3\nÄÜ = 4\nÄ = 5\nONE_A = 6\n";
        let mut names = Vec::new();
        Profile::from_text("a.py", text).each_definition(|name, _| names.push(name.to_owned()));
        assert_eq!(names, ["ONE_A", "ONE_B", "ÄÖ", "ÄÜ", "Ä", "ONE_A"]);
    }

    /// A text with so many names that they are compressed.
    fn many_names() -> String {
        let line = |number| format!("REGISTER_{}_MASK_{number} = 1\n", number % 7);
        (0..200).map(line).collect()
    }

    #[test]
    fn many_names_come_back_from_less_room() {
        let text = many_names();
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix(" = 1")).collect();
        assert_eq!(names.len(), 200);
        let profile = Profile::from_text("a.py", &text);
        let sections = profile.sections().expect("it was made just now");
        assert!(sections.names.len() < sections.names_bytes / 2);
        let mut found = Vec::new();
        profile.each_definition(|name, _| found.push(name.to_owned()));
        assert_eq!(found, names);
    }

    /// A change of the measures has to come with a new number of `catalogue::FORMAT`: kept profiles are not measured
    /// again.
    #[test]
    fn the_form_is_the_one_that_the_format_stands_for() {
        let bytes = Profile::from_text("a.py", TEXT).0;
        assert_eq!((bytes.len(), compute_checksum(&bytes)), (129, 3_127_062_473));
    }

    /// Names that claim to be longer than what is unpacked at most are not read, however few bytes they are.
    #[test]
    fn names_that_claim_too_much_are_not_unpacked() {
        let profile = Profile::from_text("a.py", &many_names());
        let sections = profile.sections().expect("it was made just now");
        for claimed in [0, sections.names_bytes - 1, 1024 * 1024 + 1, usize::MAX] {
            let claiming = ProfileSections {
                names_bytes: claimed,
                ..profile.sections().expect("it was made just now")
            };
            assert_eq!(claiming.names(), None, "{claimed}");
        }
        let larger = ProfileSections {
            names_bytes: sections.names_bytes + 1,
            ..profile.sections().expect("it was made just now")
        };
        assert_eq!(larger.names(), sections.names());
    }

    proptest! {
        #[test]
        fn damaged_profiles_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            read_damaged_profile("a.py", TEXT, &bytes);
        }

        #[test]
        fn a_profile_with_damaged_compressed_names_is_read_without_panic(at in any::<prop::sample::Index>(), by in 1_u8..) {
            let mut bytes = Profile::from_text("a.py", &many_names()).0;
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            if let Some(profile) = Profile::from_bytes(bytes) {
                profile.each_definition(|_, _| {});
            }
        }
    }
}
