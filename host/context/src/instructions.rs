//! Instruction files that a project keeps for assistants, such as `AGENTS.md`.
//!
//! They are searched in the folders from the target up to the root, among the files that a selection may use: hidden,
//! ignored and linked files do not count. They are text of the repository and grant nothing; the prompt says what they
//! may ask for.

use tool_repository::{FileList, foreign, path};

use crate::{BuildRequest, Target};

/// Bytes of all instruction files together. A model reads them with every request.
pub(super) const INSTRUCTIONS_BYTES_MAX: usize = 32 * 1024;

/// Largest file that is read. Only its first [`INSTRUCTIONS_BYTES_MAX`] bytes are shown.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Names that count in every folder up to the root, the most common one first. A later name counts where no file has an
/// earlier one.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Used only if no other file exists, and only at the root.
const FALLBACK: &str = ".github/copilot-instructions.md";

/// Files that an instruction file may import.
const IMPORTS_MAX: usize = 5;

pub(super) struct InstructionFile {
    pub(super) path: String,
    pub(super) content: Vec<u8>,
}

/// Reads the instruction files for a target, the nearest one first.
pub(super) fn read_instructions(request: &BuildRequest<'_>, list: &FileList) -> Vec<InstructionFile> {
    let folders = folders_above(request.target);
    let in_folders = NAMES.iter().map(|name| {
        let paths = folders.iter().map(|folder| match folder.as_str() {
            "" => (*name).to_owned(),
            folder => format!("{folder}/{name}"),
        });
        paths.collect::<Vec<_>>()
    });
    let fallback = vec![FALLBACK.to_owned()];
    let read = |paths: Vec<String>| -> Vec<InstructionFile> {
        let own = paths.into_iter().filter(|path| is_own(request, list, path));
        let mut files: Vec<InstructionFile> = Vec::new();
        for file in own.filter_map(|path| read_one(request, path)) {
            let imported = imported_files(&file)
                .into_iter()
                .filter(|path| is_own(request, list, path));
            let imported: Vec<InstructionFile> = imported.filter_map(|path| read_one(request, path)).collect();
            let known = |file: &InstructionFile| files.iter().any(|known| known.path == file.path);
            let new = if imported.is_empty() { vec![file] } else { imported };
            let new: Vec<InstructionFile> = new.into_iter().filter(|file| !known(file)).collect();
            files.extend(new);
        }
        files
    };
    let mut sets = in_folders.chain([fallback]).map(read);
    sets.find(|files| !files.is_empty()).unwrap_or_default()
}

fn read_one(request: &BuildRequest<'_>, path: String) -> Option<InstructionFile> {
    let content = request.repository.read_within(&path, FILE_BYTES_MAX, request.cancel);
    Some(InstructionFile {
        content: content.ok().filter(|content| !content.contains(&0))?,
        path,
    })
}

/// Resolves an instruction file that only imports others: each line of it is `@path`, relative to its folder.
fn imported_files(file: &InstructionFile) -> Vec<String> {
    let text = String::from_utf8_lossy(&file.content);
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    if lines.len() > IMPORTS_MAX {
        return Vec::new();
    }
    let (folder, _) = path::split_path(&file.path);
    let import = |line: &&str| {
        let path = line.strip_prefix('@').filter(|path| !path.starts_with('/'))?;
        path::normalise_path(&path::join_path(folder, path)).ok()
    };
    let paths: Option<Vec<String>> = lines.iter().map(import).collect();
    paths.unwrap_or_default()
}

/// The folders from that of the target up to the root, which is the empty path.
fn folders_above(target: &Target) -> Vec<String> {
    let path = match target {
        Target::Paths(paths) => paths.first().map(String::as_str),
        target => target.path(),
    };
    let mut folders = Vec::new();
    let mut folder = path.unwrap_or_default();
    // For a directory, its own path is one of the folders. For a file, its path has no files below it, so nothing is
    // found there.
    while !folder.is_empty() {
        folders.push(folder.to_owned());
        folder = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    folders.push(String::new());
    folders
}

/// True for a listed file that is not a link and not in a folder of packages or of another repository.
fn is_own(request: &BuildRequest<'_>, list: &FileList, path: &str) -> bool {
    let root = request.repository.root();
    let is_file = || {
        root.join(path)
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file())
    };
    let mut parents = path.match_indices('/').map(|(end, _)| &path[..end]);
    list.find(path).is_some()
        && foreign::find_place(path).is_none()
        && is_file()
        && parents.all(|parent| root.join(parent).join(".git").symlink_metadata().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_nothing_but_imports_stands_for_these() {
        let imports = |path: &str, text: &str| {
            imported_files(&InstructionFile {
                path: path.into(),
                content: text.into(),
            })
        };
        assert_eq!(imports("CLAUDE.md", "@docs/rules.md\n"), ["docs/rules.md"]);
        assert_eq!(
            imports("a/CLAUDE.md", "\u{feff}@../x.md\r\n\n@./y.md"),
            ["x.md", "a/y.md"]
        );
        for other in [
            "",
            "Read @docs/rules.md",
            "@a.md\nBe brief.",
            "@../x.md",
            "@/etc/passwd",
            "@~x\0",
        ] {
            assert_eq!(imports("CLAUDE.md", other), [""; 0], "{other:?}");
        }
    }

    #[test]
    fn folders_go_from_the_target_to_the_root() {
        let folders = |target: Target| folders_above(&target);
        assert_eq!(folders(Target::Root), [""]);
        assert_eq!(folders(Target::Task("x".into())), [""]);
        assert_eq!(folders(Target::Directory("a/b".into())), ["a/b", "a", ""]);
        assert_eq!(folders(Target::File("a/b.py".into())), ["a/b.py", "a", ""]);
    }
}
