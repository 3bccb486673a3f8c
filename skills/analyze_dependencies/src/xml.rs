//! Reads the elements of an XML manifest one by one. No entity is expanded.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Limit for the depth of elements. Real files have ten levels.
const DEPTH_MAX: usize = 64;
/// Limit for the text of an element in bytes. Names and versions are short.
const TEXT_BYTES_MAX: usize = 1 << 12;

/// An element that ended. Its children were read before it.
pub(crate) struct XmlElement<'r> {
    /// Names of the elements around it and its own, joined by slashes.
    pub(crate) path: &'r str,
    /// Its own text, without that of its children.
    pub(crate) text: String,
    /// First and last line, counted from 1.
    pub(crate) line: usize,
    pub(crate) last_line: usize,
    attributes: Vec<(String, String)>,
}

impl XmlElement<'_> {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let mut values = self.attributes.iter().filter(|(key, _)| key == name);
        values
            .next()
            .map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// Name of the element around it, and its own.
    pub(crate) fn names(&self) -> (&str, &str) {
        let (above, name) = self.path.rsplit_once('/').unwrap_or(("", self.path));
        (above.rsplit('/').next().unwrap_or(above), name)
    }

    fn open(start: &BytesStart<'_>, line: usize) -> XmlElement<'static> {
        let attributes = start.attributes().flatten();
        XmlElement {
            path: "",
            text: String::new(),
            line,
            last_line: line,
            attributes: attributes
                .map(|one| (one.key.local_name().as_ref().to_owned(), one.value.into_owned()))
                .collect(),
        }
    }
}

/// Calls `visit` with each element at its end.
///
/// # Errors
///
/// Line and message of the first error. The elements before it were visited.
pub(crate) fn read_elements(text: &str, mut visit: impl FnMut(&XmlElement<'_>)) -> Result<(), (usize, String)> {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(text);
    let mut path = String::new();
    let mut open: Vec<XmlElement<'static>> = Vec::new();
    let (mut line, mut start) = (1, 0);
    loop {
        let event = reader.read_event().map_err(|error| (line, error.to_string()))?;
        let end = (reader.buffer_position() as usize).min(text.len());
        let last_line = line
            + text.as_bytes()[start..end]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
        start = end;
        let is_empty = matches!(event, Event::Empty(_));
        match event {
            Event::Eof if open.is_empty() => return Ok(()),
            Event::Eof => return Err((line, format!("`{path}` is not closed"))),
            Event::Start(element) | Event::Empty(element) => {
                if open.len() >= DEPTH_MAX {
                    return Err((line, "elements are nested too deeply".to_owned()));
                }
                if !path.is_empty() {
                    path.push('/');
                }
                path.push_str(element.local_name().as_ref());
                open.push(XmlElement::open(&element, line));
                if is_empty {
                    close_element(&mut path, &mut open, last_line, &mut visit);
                }
            }
            Event::End(_) => close_element(&mut path, &mut open, last_line, &mut visit),
            Event::Text(piece) => {
                if let Some(last) = open
                    .last_mut()
                    .filter(|last| last.text.len() + piece.len() <= TEXT_BYTES_MAX)
                {
                    last.text.push_str(piece.trim());
                }
            }
            _ => {}
        }
        line = last_line;
    }
}

fn close_element(
    path: &mut String,
    open: &mut Vec<XmlElement<'static>>,
    last_line: usize,
    visit: &mut impl FnMut(&XmlElement<'_>),
) {
    if let Some(element) = open.pop() {
        visit(&XmlElement {
            path: path.as_str(),
            last_line,
            ..element
        });
    }
    path.truncate(path.rfind('/').unwrap_or(0));
}
