//! Copies settings of tools for a run, key by key, from files that may hold credentials.
//!
//! A recipe names the keys. Everything else in the file is left out, as is every URL with a user or a password. A
//! file that cannot be parsed yields nothing.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};
use toml::{Table, Value};

use crate::recipes::CopiedSettings;
use tool_sandbox::program_sandbox::WrittenFile;

/// Limit for a file of settings in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Copies the settings of a tool whose folder is `place`.
pub(super) fn copy_settings(place: &Path, settings: &[CopiedSettings]) -> Vec<WrittenFile> {
    let copied = settings.iter().filter_map(|settings| {
        let from = place.join(&settings.file);
        let text = read_settings(&from)?;
        let text = if settings.file.ends_with(".xml") {
            copy_xml(&text, &settings.keys)
        } else {
            copy_toml(&text, &settings.keys)
        };
        Some(WrittenFile {
            place: from,
            text: text?,
        })
    });
    copied.collect()
}

/// Folders in which a tool keeps packages, according to these copied settings.
pub(super) fn package_folders(copied: &[WrittenFile], settings: &[CopiedSettings], home: Option<&str>) -> Vec<PathBuf> {
    let found = settings.iter().filter_map(|settings| {
        let key = settings.packages.as_deref()?;
        let file = copied.iter().find(|file| file.place.ends_with(&settings.file))?;
        let value = text_of(&file.text, key)?.replace("${user.home}", home?);
        Some(PathBuf::from(value)).filter(|folder| folder.is_absolute())
    });
    found.collect()
}

/// Text of the XML element that a key names.
fn text_of(text: &str, key: &str) -> Option<String> {
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    loop {
        match reader.read_event().ok()? {
            Event::Eof => return None,
            Event::Start(start) => path.push(start.local_name().as_ref().to_owned()),
            Event::Text(text) if path.join(".") == key => return Some(text.to_string()),
            Event::End(_) => {
                path.pop();
            }
            _ => {}
        }
    }
}

fn read_settings(place: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(place).ok()?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= FILE_BYTES_MAX).then_some(text)
}

/// True if a key of the recipe names this path.
fn is_named(keys: &[String], path: &[&str]) -> bool {
    let fits = |key: &String| {
        let parts: Vec<&str> = key.split('.').collect();
        parts.len() == path.len() && parts.iter().zip(path).all(|(part, name)| *part == "*" || part == name)
    };
    keys.iter().any(fits)
}

/// True for a text with a URL that contains a user or a password.
fn has_credentials(text: &str) -> bool {
    let authority = text
        .split_once("://")
        .map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(rest));
    authority.is_some_and(|authority| authority.contains('@'))
}

/// Copies the named keys with text values from a TOML file. `None` if there are none.
fn copy_toml(text: &str, keys: &[String]) -> Option<String> {
    let mut kept = Table::new();
    let mut path = Vec::new();
    keep_keys(&text.parse().ok()?, &mut kept, keys, &mut path);
    (!kept.is_empty()).then(|| toml::to_string(&kept).ok()).flatten()
}

fn keep_keys<'t>(table: &'t Table, kept: &mut Table, keys: &[String], path: &mut Vec<&'t str>) {
    for (name, value) in table {
        path.push(name);
        match value {
            Value::String(text) if is_named(keys, path) && !has_credentials(text) => {
                kept.insert(name.clone(), value.clone());
            }
            // Keys of recipes have at most this depth.
            Value::Table(inner) if path.len() < 3 => {
                let mut kept_inner = Table::new();
                keep_keys(inner, &mut kept_inner, keys, path);
                if !kept_inner.is_empty() {
                    kept.insert(name.clone(), Value::Table(kept_inner));
                }
            }
            _ => {}
        }
        path.pop();
    }
}

/// Copies the named elements from an XML file, with the elements around them. `None` if there are none. An element
/// with credentials in a URL is left out.
fn copy_xml(text: &str, keys: &[String]) -> Option<String> {
    let mut reader = Reader::from_str(text);
    let mut writer = Writer::new(Vec::new());
    let mut path: Vec<String> = Vec::new();
    let mut content = String::new();
    let mut has_any = false;
    loop {
        match reader.read_event().ok()? {
            Event::Eof if path.is_empty() => break,
            Event::Eof => return None,
            Event::Start(start) => {
                path.push(start.local_name().as_ref().to_owned());
                content.clear();
                if is_around(keys, &path) {
                    let name = path.last()?.clone();
                    writer.write_event(Event::Start(BytesStart::new(name))).ok()?;
                }
            }
            Event::Text(text) => content.push_str(&text),
            Event::GeneralRef(entity) => {
                // Other entities are defined in the original file and mean nothing in the copy.
                let is_predefined = ["amp", "lt", "gt", "quot", "apos"].contains(&&*entity);
                content.push_str(&is_predefined.then(|| format!("&{};", &*entity))?);
            }
            Event::End(_) => {
                let names: Vec<&str> = path.iter().map(String::as_str).collect();
                let name = path.last()?;
                if is_named(keys, &names) && !has_credentials(&content) {
                    has_any = true;
                    let element = writer.create_element(name.as_str());
                    element
                        .write_text_content(BytesText::from_escaped(content.trim()))
                        .ok()?;
                } else if is_around(keys, &path) {
                    writer.write_event(Event::End(BytesEnd::new(name))).ok()?;
                }
                path.pop();
            }
            _ => {}
        }
    }
    has_any.then(|| String::from_utf8(writer.into_inner()).ok()).flatten()
}

/// True for an element that contains named elements.
fn is_around(keys: &[String], path: &[String]) -> bool {
    let holds = |key: &String| {
        let mut parts = key.split('.');
        path.iter().all(|name| parts.next() == Some(name)) && parts.next().is_some()
    };
    keys.iter().any(holds)
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::recipes;

    fn copied(recipe: &str, file: &str, text: &str) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(file), text).expect("it can be written");
        let recipe = recipes::find_recipe(recipe).expect("it is a recipe");
        let settings = recipe.homes.iter().flat_map(|home| &home.settings);
        let mut files = settings.flat_map(|settings| copy_settings(folder.path(), std::slice::from_ref(settings)));
        files.next().map(|file| file.text)
    }

    #[test]
    fn cargo_gets_the_names_of_registries_and_no_token() {
        let text = r#"
            [source.crates-io]
            replace-with = "mirror"
            [source.mirror]
            registry = "sparse+https://mirror.example/index/"
            [source.private]
            registry = "https://user:hunter2@private.example/index"
            [registries.mirror]
            index = "sparse+https://mirror.example/index/"
            token = "hunter2"
            credential-provider = ["cargo:token-from-stdout", "hunter2"]
            [registry]
            default = "mirror"
            token = "hunter2"
            [http]
            proxy = "http://user:hunter2@proxy.example"
            [env]
            SECRET = "hunter2"
        "#;
        insta::assert_snapshot!(copied("cargo", "config.toml", text).expect("there are some"), @r#"
        [registries.mirror]
        index = "sparse+https://mirror.example/index/"

        [registry]
        default = "mirror"

        [source.crates-io]
        replace-with = "mirror"

        [source.mirror]
        registry = "sparse+https://mirror.example/index/"
        "#);
        assert_eq!(copied("cargo", "config.toml", "[http]\nproxy = \"x\"\n"), None);
        assert_eq!(copied("cargo", "config.toml", "not toml"), None);
    }

    #[test]
    fn maven_gets_its_mirrors_and_no_password() {
        let text = "<?xml version=\"1.0\"?>\n<!DOCTYPE x [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>\n\
            <settings xmlns=\"http://maven.example/SETTINGS\">\n <servers><server><id>m</id><password>hunter2</password>\
            </server></servers>\n <mirrors><mirror><id>m</id><url>https://m.example/a?b&amp;c</url><mirrorOf>*</mirrorOf>\
            <blocked>false</blocked></mirror>\n<mirror><id>n</id><url>https://u:hunter2@n.example/</url></mirror></mirrors>\n\
            <proxies><proxy><password>hunter2</password></proxy></proxies></settings>";
        assert_eq!(
            copied("maven", "settings.xml", text).as_deref(),
            Some(
                "<settings><mirrors><mirror><id>m</id><url>https://m.example/a?b&amp;c</url><mirrorOf>*</mirrorOf></mirror>\
                 <mirror><id>n</id></mirror></mirrors></settings>"
            )
        );
        let elsewhere = "<settings><localRepository>${user.home}/packages</localRepository></settings>";
        let file = WrittenFile {
            place: PathBuf::from("/home/u/.m2/settings.xml"),
            text: copied("maven", "settings.xml", elsewhere).expect("there is a key"),
        };
        let recipe = recipes::find_recipe("maven").expect("it is a recipe");
        let folders = package_folders(&[file], &recipe.homes[0].settings, Some("/home/u"));
        assert_eq!(folders, [PathBuf::from("/home/u/packages")]);
        assert_eq!(copied("maven", "settings.xml", "<settings/>"), None);
        assert_eq!(copied("maven", "settings.xml", "<settings><mirrors>"), None);
    }
}
