//! The title and the purpose in a README: its first heading, and its first paragraph of prose.
//!
//! Badges, code, lists, tables and lines of links are not prose. A paragraph below a heading such as "Installation"
//! does not describe the project. A quotation counts only as a motto below the title. A paragraph in HTML or a heading
//! that welcomes counts only if nothing else does.

use std::ops::Range;
use std::sync::LazyLock;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use regex::{Captures, Regex};

use crate::evidence::{FileLine, SourceQuote};
use crate::text::{cut_text, first_sentence};

const PURPOSE_CHARACTERS_MAX: usize = 400;
/// A further sentence is left out if it makes the purpose longer.
const SENTENCES_BYTES_MAX: usize = 250;
/// Paragraphs that are searched for the purpose.
const PARAGRAPHS_MAX: usize = 8;
/// Longest heading, in characters, that is a name and not a sentence.
const TITLE_CHARACTERS_MAX: usize = 50;

/// The parts of a README that describe a project.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readme {
    pub(super) title: Option<SourceQuote>,
    pub(super) purpose: Option<SourceQuote>,
    /// The first heading with its tagline, for a project that says no more about itself.
    pub(super) heading: Option<SourceQuote>,
}

/// True for a README in any form.
pub(super) fn is_readme(path: &str) -> bool {
    tool_repository::file_role::file_name(path)
        .to_ascii_lowercase()
        .starts_with("readme")
}

impl Readme {
    /// Reads a README: Markdown by its syntax, other formats by lines.
    ///
    /// Among its first paragraphs, one that begins with one of `names` and a verb is preferred.
    pub(super) fn parse_readme(path: &str, lines: &[FileLine], names: &[String]) -> Self {
        let lower = path.to_ascii_lowercase();
        if [".rst", ".txt", ".rdoc", ".org", ".adoc", "readme"]
            .iter()
            .any(|end| lower.ends_with(end))
        {
            read_plain(lines, names)
        } else {
            read_markdown(lines, names)
        }
    }

    fn from_parts(
        title: Option<SourceQuote>,
        paragraphs: &[ReadmeParagraph],
        other: Option<SourceQuote>,
        names: &[String],
    ) -> Self {
        // A project may have the name of a section: Testify.
        let resembles = |text: &str| {
            names
                .iter()
                .any(|name| normalize_name(text).contains(&normalize_name(name)))
        };
        let heading = title
            .clone()
            .filter(|heading| !heading.text.is_empty() && !is_aside(&heading.text));
        let title = title.map(|title| SourceQuote {
            text: without_tagline(&title.text).to_owned(),
            ..title
        });
        let title = title.filter(|title| is_name(&title.text) && (!is_aside(&title.text) || resembles(&title.text)));
        let names = names.iter().chain(title.as_ref().map(|title| &title.text));
        let own = r"(this|our) (repo(sitory)?|project|package|library|app(lication)?|web ?site|tool|template|service)";
        let parts = |name: &String| name.split(['-', '_', ' ']).map(regex::escape).collect::<Vec<_>>();
        let names: Vec<String> = names
            .map(|name| parts(name).join("[-_ ]?"))
            .chain([own.to_owned()])
            .collect();
        let verbs = "is|are|was|provides|offers|allows|helps|lets|makes|implements|gives|turns|contains|adds|brings";
        let introduces = Regex::new(&format!(
            r"(?i)^\W*(the )?({})\W{{0,3}}(\s*\([^)]*\)|[^,.]{{1,80}},|\s+v?\d[\d.]*)?\s+({verbs})\b",
            names.join("|")
        ))
        .expect("names are escaped");
        let is_a =
            Regex::new(&format!(r"(?i)^\W*({})\W{{0,3}} is (an?|the)\b", names.join("|"))).expect("names are escaped");
        // "Carts cost money. Enter Shop. Shop is a list of carts."
        let introducing_sentence = |text: &str| {
            let mut start = 0;
            while !is_a.is_match(&text[start..]) {
                let sentence = first_sentence(&text[start..]).len();
                let rest = text
                    .get(start + sentence..)
                    .filter(|rest| sentence > 0 && !rest.is_empty())?;
                start = text.len() - rest.trim_start().len();
            }
            Some(start)
        };
        let presents = Regex::new(r"(?i)^this is (an?|the|my|our) ").expect("the expression is a constant");
        let denies = Regex::new(r"^\s*(not|no longer|(only )?(available|distributed|licensed|maintained|published|released|supported|tested))\b").expect("the expression is a constant");
        let is_introduction = |paragraph: &&ReadmeParagraph| {
            let text = paragraph.words.text.as_str();
            let verb = introduces.find(text);
            verb.is_some_and(|verb| !denies.is_match(&text[verb.end()..]))
                || introducing_sentence(text).is_some()
                || paragraph.is_leading && (presents.is_match(text) || is_description(text))
        };
        let paragraphs = || paragraphs.iter().filter(|paragraph| !is_remark(&paragraph.words.text));
        let first = || {
            let mut leading = paragraphs().filter(|paragraph| paragraph.is_leading);
            leading.find(|paragraph| !without_lead_in(&paragraph.words.text).ends_with(':'))
        };
        let about = || paragraphs().find(|paragraph| paragraph.is_about);
        let purpose = paragraphs().find(is_introduction).or_else(first).or_else(about);
        let purpose = purpose.map(|paragraph| &paragraph.words).or(other.as_ref());
        let purpose = purpose.map(|words| {
            let text = without_lead_in(&words.text).trim_end_matches(':');
            let text = &text[introducing_sentence(text).unwrap_or_default()..];
            SourceQuote {
                text: cut_text(first_sentences(text), PURPOSE_CHARACTERS_MAX),
                ..words.clone()
            }
        });
        Self {
            title,
            purpose,
            heading,
        }
    }
}

/// The sentences at the beginning of a paragraph that fit into a few lines; at least one.
fn first_sentences(text: &str) -> &str {
    let mut end = first_sentence(text).len();
    while end < text.len() {
        let rest = &text[end..];
        let next = end + rest.len() - rest.trim_start().len() + first_sentence(rest.trim_start()).len();
        if next > SENTENCES_BYTES_MAX {
            break;
        }
        end = next;
    }
    &text[..end]
}

/// Removes the end of a paragraph that only leads to a list or an example: its last sentence, if it has several, or ",
/// featuring:".
fn without_lead_in(text: &str) -> &str {
    const WORDS_MAX: usize = 3;
    if !text.ends_with(':') {
        return text;
    }
    if let Some(end) = text.rfind(". ") {
        return &text[..=end];
    }
    let short_end = text
        .rsplit_once(", ")
        .filter(|(_, end)| end.split_whitespace().count() <= WORDS_MAX);
    short_end.map_or(text, |(rest, _)| rest)
}

/// True for a noun phrase such as "Fast JSON parser for …": no verb or pronoun is near its beginning.
fn is_description(text: &str) -> bool {
    const WORDS: usize = 6;
    const OTHERS: [&str; 23] = [
        "is", "are", "was", "were", "has", "have", "had", "will", "can", "may", "should", "must", "i", "we", "you",
        "it", "they", "this", "these", "our", "your", "please", "see",
    ];
    let words = text.split_whitespace().take(WORDS).map(str::to_lowercase);
    let mut plain = words.map(|word| word.replace(|c: char| !c.is_alphanumeric(), ""));
    let is_heading = !text.contains(char::is_lowercase) || text.starts_with("That ");
    !is_heading && plain.all(|word| !OTHERS.contains(&word.as_str()))
}

/// True for a paragraph about the document, or a warning.
pub(super) fn is_remark(text: &str) -> bool {
    static REMARK: LazyLock<Regex> = LazyLock::new(|| {
        let note = "please note|note that|this is the readme|this readme|you are reading";
        let label = "(note|important|warning|attention):";
        let licence = "(dual-)?licen[sc]ed under|copyright\\b|\\(c\\) \\d|\u{a9}";
        let call = "(please |featured |our )?(sponsors?|donate)\\b|(please )?star (us|this|the)\\b|become a (sponsor|backer)|(join|follow) (us|our)\\b";
        let help = "(install|run|download|clone|visit)\\b|check out\\b|see (the|our)\\b|if you (have|need|want|like|are|would|find)\\b|for (more|further|full) (information|details)\\b";
        let other = "(read( this)?|also available) in\\b|other languages|disclaimer\\b";
        let boilerplate =
            "this is an? .*bootstrapped with|this project was (generated|bootstrapped|created) (with|by|using)";
        let kinds = [note, label, licence, call, help, other, boilerplate].join("|");
        Regex::new(&format!(r"(?i)^[^\w\u{{a9}}(]*({kinds})")).expect("the expression is a constant")
    });
    REMARK.is_match(text)
}

#[derive(Debug)]
struct ReadmeParagraph {
    words: SourceQuote,
    /// True before the first heading below the title. Such a paragraph describes the whole project.
    is_leading: bool,
    /// True below a heading such as "What is it?" or "Introduction".
    is_about: bool,
}

/// A block of text with its place in the source.
#[derive(Debug, Default)]
struct ReadmeBlock {
    text: String,
    /// Characters of it that belong to links.
    linked: usize,
    start: usize,
    end: usize,
}

impl ReadmeBlock {
    /// True for a paragraph that describes something. A sentence directly below the title may be short.
    fn is_prose(&self, is_leading: bool) -> bool {
        let text = without_urls(&self.text);
        let words = text
            .split_whitespace()
            .filter(|word| word.chars().any(char::is_alphabetic));
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let visible = text.chars().filter(|c| !c.is_whitespace()).count();
        let is_sentence = is_leading && text.ends_with('.');
        let (words_min, letters_min) = if is_sentence { (2, 8) } else { (4, 20) };
        // A list of languages or links.
        let is_list = [" | ", " • ", " · "].iter().any(|mark| text.matches(mark).count() > 2);
        !is_list
            && words.count() >= words_min
            && letters >= letters_min
            && letters * 3 > visible * 2
            && self.linked * 5 < self.text.chars().count() * 3
    }
}

/// The name before the tagline.
fn without_tagline(title: &str) -> &str {
    let marks = [" - ", " \u{2013} ", " \u{2014} ", ": "];
    let end = marks.iter().filter_map(|mark| title.find(mark)).min();
    end.map_or(title, |end| title[..end].trim_end())
}

fn normalize_name(text: &str) -> String {
    text.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "")
}

/// True for a heading whose section describes the project.
fn asks_what_it_is(heading: &str) -> bool {
    let heading = heading.to_lowercase();
    let starts = [
        "what is",
        "what's",
        "what\u{2019}s",
        "introduction",
        "about",
        "overview",
        "description",
    ];
    starts.iter().any(|start| heading.starts_with(start))
}

fn without_urls(text: &str) -> String {
    text.split_whitespace()
        .filter(|word| !word.contains("://"))
        .collect::<Vec<_>>()
        .join(" ")
}

fn read_markdown(lines: &[FileLine], names: &[String]) -> Readme {
    let source: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
    let line_of = |offset: usize| {
        let before = &source.as_bytes()[..offset.min(source.len())];
        let at = before.iter().filter(|byte| **byte == b'\n').count();
        lines.get(at).map_or(1, |line| line.number)
    };
    let quoted = |words: &str, block: &ReadmeBlock| {
        let inside = source.as_bytes().get(block.start..block.end).unwrap_or_default();
        let first = line_of(block.start);
        SourceQuote {
            last_line: line_of(block.start + inside.trim_ascii_end().len()).max(first),
            ..SourceQuote::new(words, first)
        }
    };
    let (mut title, mut paragraphs, mut is_leading) = (None, Vec::new(), true);
    let (mut in_html, mut welcome, mut is_about) = (None, None, false);
    let mut aside_level: Option<HeadingLevel> = None;
    let mut reader = MarkdownReader::default();
    for (event, range) in Parser::new_ext(&source, Options::ENABLE_TABLES | Options::ENABLE_GFM).into_offset_iter() {
        match reader.step(event, range) {
            Some(MarkdownBlock::Heading(block, level)) => {
                let is_title = title.is_none() && level == HeadingLevel::H1 && !block.text.is_empty();
                // A project may have the name of such a section: Testify.
                // The sections below a section about news are news, too.
                aside_level = aside_level.filter(|aside| level > *aside);
                if !is_title && is_aside(&block.text) {
                    aside_level = aside_level.or(Some(level));
                }
                reader.is_aside = aside_level.is_some();
                is_about = asks_what_it_is(&block.text);
                is_leading &= level == HeadingLevel::H1;
                if is_title {
                    title = Some(quoted(&block.text, &block));
                }
                let welcomed = block.text.strip_prefix("Welcome to ").filter(|rest| rest.contains(','));
                welcome = welcome.or_else(|| welcomed.map(|rest| quoted(rest, &block)));
            }
            // The motto between a logo and badges.
            Some(MarkdownBlock::Html(block))
                if is_leading && paragraphs.is_empty() && block.is_prose(true) && is_description(&block.text) =>
            {
                paragraphs.push(ReadmeParagraph {
                    words: quoted(&block.text, &block),
                    is_leading,
                    is_about,
                });
            }
            Some(MarkdownBlock::Html(block)) if in_html.is_none() && is_leading && block.is_prose(true) => {
                in_html = Some(quoted(&block.text, &block));
            }
            Some(MarkdownBlock::Quotation(block))
                if is_leading && paragraphs.is_empty() && !block.text.starts_with('[') && block.is_prose(true) =>
            {
                paragraphs.push(ReadmeParagraph {
                    words: quoted(&block.text, &block),
                    is_leading,
                    is_about,
                });
            }
            Some(MarkdownBlock::Paragraph(block))
                if !reader.is_aside && block.is_prose(is_leading) && !is_remark(&block.text) =>
            {
                paragraphs.push(ReadmeParagraph {
                    words: quoted(block.text.trim(), &block),
                    is_leading,
                    is_about,
                });
            }
            Some(MarkdownBlock::Paragraph(_) | MarkdownBlock::Quotation(_) | MarkdownBlock::Html(_)) | None => {}
        }
        if paragraphs.len() == PARAGRAPHS_MAX {
            break;
        }
    }
    Readme::from_parts(title, &paragraphs, in_html.or(welcome), names)
}

/// True for a short heading that is not a greeting.
fn is_name(text: &str) -> bool {
    text.chars().count() <= TITLE_CHARACTERS_MAX && !text.to_ascii_lowercase().starts_with("welcome")
}

/// True for a heading whose section does not describe the purpose.
fn is_aside(heading: &str) -> bool {
    const ASIDES: [&str; 30] = [
        "announc",
        "what's new",
        "release",
        "install",
        "usage",
        "quick",
        "getting started",
        "contents",
        "sponsor",
        "backer",
        "support",
        "contribut",
        "license",
        "licence",
        "changelog",
        "news",
        "requirement",
        "build",
        "test",
        "credit",
        "author",
        "donat",
        "example",
        "status",
        "download",
        "disclaimer",
        "prerequisite",
        "feedback",
        "community",
        "warning",
    ];
    let heading = heading.to_ascii_lowercase();
    let heading = heading.trim_start_matches(|c: char| !c.is_alphanumeric());
    ASIDES.iter().any(|aside| heading.starts_with(aside)) || heading.contains("table of contents")
}

enum MarkdownBlock {
    Heading(ReadmeBlock, HeadingLevel),
    Paragraph(ReadmeBlock),
    /// A paragraph that consists of a quotation.
    Quotation(ReadmeBlock),
    /// A paragraph that is written as HTML.
    Html(ReadmeBlock),
}

/// Collects the text of top-level headings and paragraphs.
#[derive(Default)]
struct MarkdownReader {
    block: ReadmeBlock,
    /// Lists, quotations, tables and code around the event.
    nested: usize,
    quotations: usize,
    links: usize,
    images: usize,
    html: String,
    html_start: usize,
    is_aside: bool,
}

impl MarkdownReader {
    fn step(&mut self, event: Event<'_>, range: Range<usize>) -> Option<MarkdownBlock> {
        if matches!(event, Event::End(TagEnd::Heading(_) | TagEnd::Paragraph)) {
            self.block.end = range.end;
        }
        match event {
            Event::Start(Tag::Heading { .. } | Tag::Paragraph) => {
                self.block = ReadmeBlock {
                    start: range.start,
                    ..ReadmeBlock::default()
                };
            }
            Event::End(TagEnd::Heading(level)) if self.nested == 0 => {
                return Some(MarkdownBlock::Heading(std::mem::take(&mut self.block).trimmed(), level));
            }
            Event::End(TagEnd::Paragraph) if self.nested == 0 => {
                return Some(MarkdownBlock::Paragraph(std::mem::take(&mut self.block).trimmed()));
            }
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_)) if self.nested == 1 && self.quotations == 1 => {
                return Some(MarkdownBlock::Quotation(std::mem::take(&mut self.block).trimmed()));
            }
            // A box such as `[!NOTE]` is no motto, and neither are the paragraphs in it.
            Event::Start(Tag::BlockQuote(Some(_))) => self.nested += 2,
            Event::End(TagEnd::BlockQuote(Some(_))) => self.nested -= 2,
            Event::Start(Tag::BlockQuote(None)) => {
                self.nested += 1;
                self.quotations += 1;
            }
            Event::End(TagEnd::BlockQuote(None)) => {
                self.nested -= 1;
                self.quotations -= 1;
            }
            Event::Start(Tag::List(_) | Tag::Table(_) | Tag::CodeBlock(_) | Tag::MetadataBlock(_)) => {
                self.nested += 1;
            }
            Event::End(TagEnd::List(_) | TagEnd::Table | TagEnd::CodeBlock | TagEnd::MetadataBlock(_)) => {
                self.nested -= 1
            }
            Event::Start(Tag::Link { .. }) => self.links += 1,
            Event::End(TagEnd::Link) => self.links -= 1,
            Event::Start(Tag::Image { .. }) => self.images += 1,
            Event::End(TagEnd::Image) => self.images -= 1,
            Event::Text(text) if self.images == 0 => {
                let is_link = self.links > 0;
                self.block.linked += if is_link { text.chars().count() } else { 0 };
                self.block.text.push_str(&text);
            }
            Event::Code(text) if self.images == 0 => self.block.text.push_str(&format!("`{text}`")),
            Event::SoftBreak | Event::HardBreak => self.block.text.push(' '),
            Event::Start(Tag::HtmlBlock) => {
                self.html.clear();
                self.html_start = range.start;
            }
            Event::Html(html) => self.html.push_str(&html),
            Event::End(TagEnd::HtmlBlock) => return self.html_block(),
            _ => {}
        }
        None
    }

    /// The heading in a block of HTML, else its first descriptive paragraph.
    fn html_block(&self) -> Option<MarkdownBlock> {
        static BLOCK: LazyLock<[Regex; 2]> = LazyLock::new(|| {
            [r"(?is)<h1[^>]*>(.*?)</h1>", r"(?is)<p\b[^>]*>(.*?)</p>"]
                .map(|pattern| Regex::new(pattern).expect("the expression is a constant"))
        });
        let [heading, paragraph] = &*BLOCK;
        let blocks_of = |pattern: &Regex| -> Vec<ReadmeBlock> {
            let found = pattern.captures_iter(&self.html);
            found.map(|found| self.block_of_html(&found)).collect()
        };
        let heading = blocks_of(heading).into_iter().find(|block| !block.text.is_empty());
        let paragraph = || blocks_of(paragraph).into_iter().find(|block| block.is_prose(true));
        let heading = heading.map(|block| MarkdownBlock::Heading(block, HeadingLevel::H1));
        heading.or_else(|| paragraph().map(MarkdownBlock::Html))
    }

    fn block_of_html(&self, found: &Captures<'_>) -> ReadmeBlock {
        static TAG: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(?s)<[^>]*>").expect("the expression is a constant"));
        static LINK: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(?is)<a\b[^>]*>(.*?)</a>").expect("the expression is a constant"));
        let (whole, inside) = (found.get(0), &found[1]);
        let linked = LINK.captures_iter(inside);
        let block = ReadmeBlock {
            text: TAG.replace_all(inside, "").into_owned(),
            start: self.html_start + whole.map_or(0, |whole| whole.start()),
            end: self.html_start + whole.map_or(0, |whole| whole.end()),
            linked: linked
                .map(|link| TAG.replace_all(&link[1], "").trim().chars().count())
                .sum(),
        };
        block.trimmed()
    }
}

impl ReadmeBlock {
    fn trimmed(mut self) -> Self {
        self.text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        self
    }
}

/// reStructuredText and plain text: paragraphs are separated by empty lines, and a heading is underlined.
fn read_plain(lines: &[FileLine], names: &[String]) -> Readme {
    let (mut title, mut paragraphs, mut headings) = (None, Vec::new(), 0);
    let mut is_aside_section = false;
    let (mut is_directive, mut is_about) = (false, false);
    for paragraph in lines.split(|line| line.text.trim().is_empty()) {
        let Some(first) = paragraph.first() else {
            continue;
        };
        // The content of a directive is indented below it, and may contain empty lines.
        if first.text.starts_with([' ', '\t']) && is_directive {
            continue;
        }
        is_directive =
            first.text.starts_with("..") || first.text.starts_with(':') || first.text.trim_end().ends_with("::");
        let heading = heading_of(paragraph);
        if let Some(line) = heading {
            is_aside_section = is_aside(line.text.trim());
            is_about = asks_what_it_is(line.text.trim());
            headings += 1;
            if title.is_none() {
                title = Some(SourceQuote::new(
                    line.text.trim_matches(|c: char| c == '=' || c.is_whitespace()),
                    line.number,
                ));
            }
            continue;
        }
        let text: Vec<&str> = paragraph.iter().map(|line| line.text.trim()).collect();
        let block = ReadmeBlock {
            text: without_roles(&text.join(" ")),
            ..ReadmeBlock::default()
        };
        let is_list = ["* ", "- ", "+ ", "| ", "> ", "    "]
            .iter()
            .any(|mark| first.text.starts_with(mark));
        if !is_directive && !is_aside_section && !is_list && block.is_prose(headings < 2) {
            paragraphs.push(ReadmeParagraph {
                words: SourceQuote {
                    last_line: paragraph[paragraph.len() - 1].number,
                    ..SourceQuote::new(&block.text, first.number)
                },
                is_leading: headings < 2,
                is_about,
            });
        }
        if paragraphs.len() == PARAGRAPHS_MAX {
            break;
        }
    }
    Readme::from_parts(title, &paragraphs, None, names)
}

/// The title among the lines of a paragraph: a line between or above lines of one punctuation mark, or a line marked
/// with `=`.
fn heading_of(paragraph: &[FileLine]) -> Option<&FileLine> {
    let is_rule = |line: &FileLine| {
        let text = line.text.trim();
        text.len() > 2 && text.chars().all(|c| "=-~^\"#*+`.".contains(c))
    };
    let marked = |line: &FileLine| line.text.starts_with("= ") || line.text.starts_with("# ");
    match paragraph {
        [above, line, ..] if is_rule(above) && !is_rule(line) => Some(line),
        [line, below, ..] if is_rule(below) && !is_rule(line) => Some(line),
        [line, ..] if marked(line) => Some(line),
        _ => None,
    }
}

/// Inline marks, and their plain form.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        (r"`([^`<]+?)\s*<[^`>]*>`__?", "$1"),
        (r":[a-z:]+:`~?([^`]+)`", "`$1`"),
        (r"``([^`]+)``", "`$1`"),
        (r"`([^`]+)`_+", "$1"),
        (r"\|[^|\s][^|]*\|_*", ""),
        (r"\*\*([^*]+)\*\*", "$1"),
        (r"\b(\w+)_(\s|[.,;]|$)", "$1$2"),
    ];
    let compile = |(pattern, with)| (Regex::new(pattern).expect("the expression is a constant"), with);
    rules.into_iter().map(compile).collect()
});

/// Removes the inline marks of reStructuredText: `` `text <url>`_ ``, ``:role:`text` ``, ` ``code`` `, `|badge|`.
fn without_roles(text: &str) -> String {
    let plain = RULES.iter().fold(text.to_owned(), |text, (rule, with)| {
        rule.replace_all(&text, *with).into_owned()
    });
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::number_lines;

    type TextAndLine = Option<(String, usize)>;

    #[test]
    fn a_purpose_of_several_lines_has_all_of_them() {
        for (path, text, lines) in [
            (
                "README.md",
                "# Shop \u{26a1}\n\nFast list of carts and their prices \u{26a1}\n\nMore.\n",
                (3, 3),
            ),
            (
                "README.md",
                "# Shop\n\nFast list of carts\nand prices.\n\nMore of it.\n",
                (3, 4),
            ),
            (
                "README",
                "Shop\n====\n\nFast list of carts\nand prices.\n\nMore of it.\n",
                (4, 5),
            ),
            ("README.md", "<p>Shop counts\n<b>carts</b>\nand prices.</p>\n", (1, 3)),
        ] {
            let purpose = Readme::parse_readme(path, &number_lines(text), &[]).purpose;
            assert_eq!(
                purpose.map(|words| (words.line, words.last_line)),
                Some(lines),
                "{text}"
            );
        }
    }

    fn told(path: &str, text: &str) -> (TextAndLine, TextAndLine) {
        let readme = Readme::parse_readme(path, &number_lines(text), &[]);
        let plain = |quotation: Option<SourceQuote>| quotation.map(|quotation| (quotation.text, quotation.line));
        (plain(readme.title), plain(readme.purpose))
    }

    #[test]
    fn badges_html_code_and_links_are_no_purpose() {
        let text = "<div align=\"center\">\n<img src=\"a.png\">\n</div>\n\n# Cart\n\n[![build](a)](b) ![x](y)\n\n\
                    [Home](a) | [Guide](b) | [Chat about it](c)\n\n```js\nimport a from 'b and c and d'\n```\n\n\
                    > [!NOTE]\n> This is a note about the name of it.\n\n**Fast** sums of `carts` for [Node](n).\nAnd prices.\n";
        let expected = "Fast sums of `carts` for Node. And prices.".to_owned();
        assert_eq!(
            told("README.md", text),
            (Some(("Cart".into(), 5)), Some((expected, 18)))
        );
    }

    #[test]
    fn a_heading_in_html_is_a_title_and_installation_no_purpose() {
        let text = "<h1 align=\"center\"><a href=\"x\">Shop</a></h1>\n\n## Installation\n\nRun this command in your own shell.\n\n\
                    ## About\n\nShop is a list of carts and prices.\n";
        let expected = "Shop is a list of carts and prices.".to_owned();
        assert_eq!(told("Readme.md", text), (Some(("Shop".into(), 1)), Some((expected, 9))));
    }

    #[test]
    fn directives_of_restructured_text_are_passed_over() {
        let text = "====\nShop\n====\n\n.. image:: a.png\n   :alt: The logo of the shop in colour\n\n|build| |docs|\n\n\
                    **Shop** counts the ``carts`` of `Node <n>`_ users.\nAnd prices_.\n";
        let expected = "Shop counts the `carts` of Node users. And prices.".to_owned();
        assert_eq!(
            told("README.rst", text),
            (Some(("Shop".into(), 2)), Some((expected, 10)))
        );
    }

    #[test]
    fn a_paragraph_that_introduces_the_project_comes_before_news() {
        let remark =
            "# Shop\n\nPlease note that this is the README of the next version.\n\nCarts for everybody who sells.\n";
        let expected = "Carts for everybody who sells.".to_owned();
        assert_eq!(told("README.md", remark).1, Some((expected, 5)));
        assert!(is_remark("**WARNING:** the interface will change."));
        assert!(!is_remark("Shop finds breaking changes of an interface."));
        let later =
            "# Shop\n\nVersion two is in beta testing.\n\n## What is it?\n\nShop (short: S) is a list of carts.\n";
        let expected = "Shop (short: S) is a list of carts.".to_owned();
        assert_eq!(told("README.md", later).1, Some((expected, 7)));
        let text = "# Shop\n\nWe are excited to announce version two of it.\n\n**Shop** is a library of carts.\n";
        let expected = "Shop is a library of carts.".to_owned();
        assert_eq!(told("README.md", text), (Some(("Shop".into(), 1)), Some((expected, 5))));
    }

    #[test]
    fn a_motto_comes_before_licences_and_denials_and_html_comes_last() {
        let motto = "# Shop\n\n> **Carts and prices for shops**\n\nDual-licensed under A or B.\n";
        let expected = "Carts and prices for shops".to_owned();
        assert_eq!(told("README.md", motto).1, Some((expected, 3)));
        let noun = "# Shop\n\nFast list of carts for shops.\n\n## More\n\nShop is written in C.\n";
        let expected = "Fast list of carts for shops.".to_owned();
        assert_eq!(told("README.md", noun).1, Some((expected, 3)));
        let denied = "# Shop\n\nCarts and prices for people who sell.\n\n## More\n\nShop is not a bank.\n";
        let expected = "Carts and prices for people who sell.".to_owned();
        assert_eq!(told("README.md", denied).1, Some((expected, 3)));
        let list = "# Shop\n\nA list of carts for shops. It is:\n\n* fast\n\n## More\n\nShop is a service.\n";
        let expected = "A list of carts for shops.".to_owned();
        assert_eq!(told("README.md", list).1, Some((expected, 3)));
        let html = "<p><a href=\"x\">Home of the carts and prices</a></p>\n<p>Shop counts <b>carts</b>.</p>\n";
        assert_eq!(told("README.md", html).1, Some(("Shop counts carts.".to_owned(), 2)));
        let welcome = "# Shop\n\n## Welcome to **Shop**, the list of carts!\n";
        assert_eq!(
            told("README.md", welcome).1,
            Some(("Shop, the list of carts!".to_owned(), 3))
        );
    }

    #[test]
    fn boxes_offers_of_help_and_boilerplate_are_no_purpose() {
        let text = "# Shop\n\n> [!NOTE]\n>\n> Shop now includes the option to use carts.\n\n\
                    If you have questions, join us in the chat of the shop.\n\n\
                    > ### Carts and prices that follow the rules of shops\n\n\
                    This is a Next.js project bootstrapped with `create-next-app`.\n";
        let expected = "Carts and prices that follow the rules of shops".to_owned();
        assert_eq!(told("README.md", text).1, Some((expected, 9)));
        let text = "# Shop\n\nThis repository contains the carts of a shop.\n";
        let expected = "This repository contains the carts of a shop.".to_owned();
        assert_eq!(told("README.md", text).1, Some((expected, 3)));
        let text =
            "# Shop\n\nVisit the site of the shop for documents.\n\nShop, a project of shops, is a list of carts.\n";
        let expected = "Shop, a project of shops, is a list of carts.".to_owned();
        assert_eq!(told("README.md", text).1, Some((expected, 5)));
        let text = "# Shop\n\n## News\n\n### Today\n\nThe shop has two new carts since today.\n\n## Description\n\nCarts that show what they cost.\n";
        let expected = "Carts that show what they cost.".to_owned();
        assert_eq!(told("README.md", text).1, Some((expected, 11)));
        let text = "# Shop\n\nA cart costs money and time. Enter Shop. Shop is a list of carts.\n";
        assert_eq!(
            told("README.md", text).1,
            Some(("Shop is a list of carts.".to_owned(), 3))
        );
        let readme = Readme::parse_readme("README.md", &number_lines("# Shop Sample Application\n\n## Run\n"), &[]);
        assert_eq!(
            readme.heading.map(|heading| heading.text),
            Some("Shop Sample Application".to_owned())
        );
    }

    #[test]
    fn a_project_may_be_called_like_a_section() {
        let text =
            "Testify - Carts\n===\n\n> [!NOTE]\n> Words about the version of it.\n\nGo code that counts carts.\n";
        let expected = "Go code that counts carts.".to_owned();
        assert_eq!(told("README.md", text).1, Some((expected, 7)));
    }

    #[test]
    fn calls_for_money_and_rights_are_no_purpose_and_a_section_may_say_it() {
        let text = "# Shop: all your carts\n\nSponsor the project and its many authors.\n\n\u{a9} Ada Lovelace and all the others\n\n\
                    ## Steps\n\nRun it once and then again.\n\n## What's a cart?\n\nCarts are lists of things to buy.\n";
        let expected = "Carts are lists of things to buy.".to_owned();
        assert_eq!(
            told("README.md", text),
            (Some(("Shop".into(), 1)), Some((expected, 13)))
        );
        assert_eq!(told("README.rst", "Donations\n=========\n\nWords.\n"), (None, None));
    }

    #[test]
    fn words_that_lead_to_a_list_are_no_part_of_a_purpose() {
        for (text, expected) in [
            ("A query builder for Node, featuring:", "A query builder for Node"),
            ("It builds queries. It has:", "It builds queries."),
            (
                "It builds queries, which run on these databases:",
                "It builds queries, which run on these databases:",
            ),
            ("It builds queries, and runs them.", "It builds queries, and runs them."),
        ] {
            assert_eq!(without_lead_in(text), expected);
        }
    }

    #[test]
    fn a_readme_of_badges_says_nothing() {
        assert_eq!(told("README.md", "[![a](b)](c)\n"), (None, None));
        assert_eq!(told("README.md", "# Welcome to the shop\n"), (None, None));
    }
}
