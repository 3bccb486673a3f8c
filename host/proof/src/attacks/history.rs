//! A git repository whose old commits hold secrets, for the attacks on the history.
//!
//! Its objects are written by hand, because only `tool-skill` may depend on libgit2. libgit2 compares each object with
//! its name, so a change of a content needs new names.

use std::fs;
use std::io;
use std::path::Path;

/// One object and its name.
struct StoredObject {
    id: &'static str,
    content: ObjectContent,
}

enum ObjectContent {
    Blob(&'static str),
    /// Names and ids of files.
    Tree(&'static [(&'static str, &'static str)]),
    /// Tree, parent and message.
    Commit(&'static str, Option<&'static str>, &'static str),
}

use ObjectContent::{Blob, Commit, Tree};

const HIDDEN: &str = "badfa04a640196f98afa9a435caaa9247ef5df37";
const SETTINGS: &str = "3498e351ed0bfb97917a72704fc169ee208dda06";
const KEY: &str = "a6584231b2726466e3c8c27aafcc0b147e318edb";
const README: &str = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
const FIRST_TREE: &str = "8a75b506d9c0ee9626f910fa4c370f4582039b8d";
const SECOND_TREE: &str = "041409520014639e395a1ce453efb4cf39da6eaa";
const THIRD_TREE: &str = "ead67fece66e2b61598e90a0da8bd7b58920e9cf";
const FIRST: &str = "a119e4116c69b15e84342372f71dfcfc11b3ecd3";
const SECOND: &str = "06bdc0859deb48d3c95384f4289e56533c1dfb52";
const THIRD: &str = "b240fdade1353dbfd8d5320cc56b47bc0de0f41b";

/// `.env` is committed, then renamed to `settings.txt` without its secret, and a private key is added in `notes.md`.
const OBJECTS: [StoredObject; 10] = [
    object(
        HIDDEN,
        Blob(
            "SETTING_A=on\nSETTING_B=on\nSETTING_C=on\nSETTING_D=on\nSETTING_E=on\nSETTING_F=on\nSETTING_G=on\n\
             SETTING_H=on\nPASSWORD=SECRET 14\n",
        ),
    ),
    object(
        SETTINGS,
        Blob(
            "SETTING_A=on\nSETTING_B=on\nSETTING_C=on\nSETTING_D=on\nSETTING_E=on\nSETTING_F=on\nSETTING_G=on\n\
             SETTING_H=on\nPASSWORD=none\n",
        ),
    ),
    object(KEY, Blob("-----BEGIN RSA PRIVATE KEY-----\nSECRET 15\n")),
    object(README, Blob("hello")),
    object(FIRST_TREE, Tree(&[(".env", HIDDEN), ("README.md", README)])),
    object(SECOND_TREE, Tree(&[("README.md", README), ("settings.txt", SETTINGS)])),
    object(
        THIRD_TREE,
        Tree(&[("README.md", README), ("notes.md", KEY), ("settings.txt", SETTINGS)]),
    ),
    object(FIRST, Commit(FIRST_TREE, None, "Add settings")),
    object(SECOND, Commit(SECOND_TREE, Some(FIRST), "Rename settings")),
    object(THIRD, Commit(THIRD_TREE, Some(SECOND), "Add notes")),
];

const fn object(id: &'static str, content: ObjectContent) -> StoredObject {
    StoredObject { id, content }
}

/// Makes `root` the work tree of the repository.
pub(super) fn write_repository(root: &Path) -> io::Result<()> {
    let git = root.join(".git");
    for folder in ["objects", "refs/heads"] {
        fs::create_dir_all(git.join(folder))?;
    }
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n")?;
    fs::write(git.join("refs/heads/main"), format!("{THIRD}\n"))?;
    fs::write(
        git.join("config"),
        "# SECRET 7\n[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    )?;
    for object in &OBJECTS {
        let (folder, name) = object.id.split_at(2);
        let folder = git.join("objects").join(folder);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), encode_object(&object.content))?;
    }
    Ok(())
}

/// An object as git stores it: kind, size and content, in one zlib block of the stored type, which needs no compressor.
fn encode_object(content: &ObjectContent) -> Vec<u8> {
    let (kind, body) = match content {
        Blob(text) => ("blob", text.as_bytes().to_vec()),
        Tree(entries) => ("tree", entries.iter().flat_map(tree_entry).collect()),
        Commit(tree, parent, message) => {
            let parent = parent.map_or_else(String::new, |parent| format!("parent {parent}\n"));
            let person = "Ada <ada@example.org> 1767225600 +0000";
            let text = format!("tree {tree}\n{parent}author {person}\ncommitter {person}\n\n{message}\n");
            ("commit", text.into_bytes())
        }
    };
    let mut object = format!("{kind} {}\0", body.len()).into_bytes();
    object.extend(body);
    let length = u16::try_from(object.len()).unwrap_or(u16::MAX);
    let mut zlib = vec![0x78, 0x01, 0x01];
    zlib.extend(length.to_le_bytes());
    zlib.extend((!length).to_le_bytes());
    zlib.extend(&object);
    zlib.extend(adler32(&object).to_be_bytes());
    zlib
}

fn tree_entry(&(name, id): &(&str, &str)) -> Vec<u8> {
    let mut entry = format!("100644 {name}\0").into_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or_default() as u8;
    entry.extend(id.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])));
    entry
}

/// The checksum (Adler-32) that ends a zlib stream.
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), &byte| {
        let low = (low + u32::from(byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    high << 16 | low
}
