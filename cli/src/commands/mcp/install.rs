//! `tool mcp install`: the configuration for other agents, printed or written into their files.
//!
//! Other content of a file stays. JSON with comments cannot be preserved, so there the entry is only printed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, value};
use tool_core::api::Grant;
use tool_core::api::{ErrorKind, Problem};
use tool_repository::changes::{FileChange, FileState};
use tool_repository::diff::FileDiff;

use crate::args::{Install, McpClient};
use crate::commands::{CommandContext, path_text};
use crate::error::Error;
use crate::output::AnswerFile;

/// A server's entry in a client's configuration.
struct ClientEntry {
    /// The client's file; absent if only the user knows its place.
    place: Option<PathBuf>,
    /// Key of the table of servers.
    servers: &'static str,
    name: String,
    entry: Value,
    is_toml: bool,
    /// True if the file is in the repository, so that others may get it.
    is_shared: bool,
}

/// Prints the configuration of a client, or writes it into its file.
pub(super) fn install_client(install: &Install, root: &Path, context: &CommandContext) -> Result<ExitCode, Error> {
    // The client reads the path later, from any directory.
    let root = &std::fs::canonicalize(root).map_err(|error| Error::on_file("Repository", root, &error))?;
    let mut form = client_entry(install, root, context)?;
    let output = context.output;
    if install.name.is_none() {
        let wanted = form.name.clone();
        if form.take_free_name(root) {
            let message = format!("`{wanted}` is of another repository there: this one is `{}`", form.name);
            output.notice(&message, Some("`--name NAME` gives it another name"));
        }
    }
    if !install.write {
        output.answer(&form.printed())?;
        if let Some(place) = &form.place {
            output.progress(&format!("goes into {}; `--write` puts it there", place.display()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(place) = &form.place else {
        return Err(Problem::new(ErrorKind::Usage, "The agent's file is not known")
            .with_hint("leave out `--write`, and put what is printed where your client reads it")
            .into());
    };
    if form.is_shared {
        check_no_link(place, root)?;
    }
    let before = read_client_file(place)?;
    let text = String::from_utf8(before.clone().unwrap_or_default()).map_err(|_| form.unreadable("it is not UTF-8"))?;
    let after = form.merged(&text, install.yes)?;
    if after == text {
        output.progress(&format!("{} has it already", place.display()));
        return Ok(ExitCode::SUCCESS);
    }
    output.ask(&diff_file(place, before, &after));
    replace_file(place, &after)?;
    output.progress(&format!("written to {}", place.display()));
    if form.is_shared {
        let message = format!(
            "{} names places of this machine, and teams often commit that file",
            place.display()
        );
        output.notice(
            &message,
            Some("leave it out of your commits, or ask each teammate to run this command"),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Current content of a client's file; `None` if it does not exist.
fn read_client_file(place: &Path) -> Result<Option<Vec<u8>>, Error> {
    match std::fs::metadata(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Ok(metadata) if !metadata.is_file() => {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("`{}` is no file", place.display()),
            ));
        }
        _ => {}
    }
    let content = std::fs::read(place).map_err(|error| Error::on_file("Configuration", place, &error))?;
    Ok(Some(content))
}

/// Refuses a file in a repository behind a link: the author of the link would decide which file is written.
fn check_no_link(place: &Path, root: &Path) -> Result<(), Error> {
    let below = place.ancestors().take_while(|part| *part != root);
    match below.into_iter().find(|part| part.is_symlink()) {
        None => Ok(()),
        Some(link) => Err(Problem::new(
            ErrorKind::Usage,
            format!("`{}` is a link, and nothing is written through it", link.display()),
        )
        .with_hint("leave out `--write`, and put what is printed where it leads, if that is what you want")
        .into()),
    }
}

/// Checks the name of an entry: clients build tool names from it, and allow few characters.
fn check_name(name: &str) -> Result<(), Error> {
    let is_fit = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_of_name);
    if is_fit {
        Ok(())
    } else {
        Err(
            Problem::new(ErrorKind::Usage, format!("`{name}` is not a valid name of a server"))
                .with_hint(format!(
                    "letters, digits, `-` and `_`, at most {NAME_BYTES_MAX} of them"
                ))
                .into(),
        )
    }
}

fn is_of_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_')
}

/// Longest name of an entry. Together with the name of a skill it must stay below the 64 characters that models accept.
const NAME_BYTES_MAX: usize = 40;

/// Largest number that distinguishes repositories with the same name.
const NUMBERS_MAX: usize = 100;

fn client_entry(install: &Install, root: &Path, context: &CommandContext) -> Result<ClientEntry, Error> {
    let program =
        std::env::current_exe().map_err(|error| Error::new(ErrorKind::Usage, format!("Where am I? {error}")))?;
    let mut arguments = vec!["mcp".to_owned(), "--root".to_owned(), path_text(root)?];
    for effect in &install.allow {
        effect.parse::<Grant>()?;
        arguments.extend(["--allow".to_owned(), effect.clone()]);
    }
    let mut entry = json!({"command": path_text(&program)?, "args": arguments});
    let environment = &context.backend.environment;
    // Agents start their servers with a minimal environment.
    if let Some(home) = environment.get("TOOL_HOME") {
        entry["env"] = json!({"TOOL_HOME": home});
    }
    let home = environment.get("HOME").map(PathBuf::from);
    let at_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let folder = root
        .file_name()
        .map_or_else(|| "root".into(), |name| name.to_string_lossy());
    // A file in the user's home serves every repository, so each gets its own entry.
    let own: String = format!("tool-{folder}")
        .chars()
        .map(|sign| if is_of_name(sign) { sign } else { '-' })
        .take(NAME_BYTES_MAX - NUMBERS_MAX.to_string().len())
        .collect();
    if let Some(name) = &install.name {
        check_name(name)?;
    }
    let here = |path: &str| Some(root.join(path));
    let (place, servers, name) = match install.client {
        McpClient::ClaudeDesktop => (at_home(CLAUDE_DESKTOP), "mcpServers", own),
        McpClient::ClaudeCode => (here(".mcp.json"), "mcpServers", "tool".to_owned()),
        McpClient::Cursor => (here(".cursor/mcp.json"), "mcpServers", "tool".to_owned()),
        McpClient::Vscode => (here(".vscode/mcp.json"), "servers", "tool".to_owned()),
        McpClient::Zed => (at_home(".config/zed/settings.json"), "context_servers", own),
        McpClient::Codex => (at_home(".codex/config.toml"), "mcp_servers", own),
        McpClient::Gemini => (here(".gemini/settings.json"), "mcpServers", "tool".to_owned()),
        McpClient::Json => (None, "mcpServers", "tool".to_owned()),
    };
    if matches!(install.client, McpClient::ClaudeCode | McpClient::Vscode) {
        entry["type"] = json!("stdio");
    }
    if install.client == McpClient::Codex {
        // The server judges each call by the user's grants, and asks if necessary. Without this key, Codex refuses
        // every tool that changes something when it runs without a terminal (`codex exec`).
        entry["default_tools_approval_mode"] = json!("approve");
    }
    Ok(ClientEntry {
        is_shared: place.as_ref().is_some_and(|place| place.starts_with(root)),
        place,
        servers,
        name: install.name.clone().unwrap_or(name),
        entry,
        is_toml: install.client == McpClient::Codex,
    })
}

#[cfg(target_os = "macos")]
const CLAUDE_DESKTOP: &str = "Library/Application Support/Claude/claude_desktop_config.json";
#[cfg(not(target_os = "macos"))]
const CLAUDE_DESKTOP: &str = ".config/Claude/claude_desktop_config.json";

impl ClientEntry {
    /// Takes another name if one file serves all repositories and another repository has the name. Returns true if so.
    fn take_free_name(&mut self, root: &Path) -> bool {
        let text = self
            .place
            .as_ref()
            .filter(|_| !self.is_shared)
            .and_then(|place| read_client_file(place).ok()?);
        let Some(text) = text.and_then(|text| String::from_utf8(text).ok()) else {
            return false;
        };
        let servers = self.servers_in(&text);
        let numbered = (2..NUMBERS_MAX).map(|number| format!("{}-{number}", self.name));
        let is_ours = |name: &String| {
            servers
                .get(name)
                .is_none_or(|entry| root_of(entry).is_none_or(|of| of == root))
        };
        let found = std::iter::once(self.name.clone()).chain(numbered).find(is_ours);
        let is_another = found.as_ref().is_some_and(|found| *found != self.name);
        self.name = found.unwrap_or_else(|| self.name.clone());
        is_another
    }

    /// The servers in a file; empty if it cannot be parsed, which is reported when it is written.
    fn servers_in(&self, text: &str) -> Map<String, Value> {
        let document: Option<Value> = if self.is_toml {
            text.parse::<DocumentMut>()
                .ok()
                .map(|document| json_of(document.as_item()))
        } else {
            serde_json::from_str(text).ok()
        };
        let servers = document
            .as_ref()
            .and_then(|document| document[self.servers].as_object());
        servers.cloned().unwrap_or_default()
    }

    /// The whole configuration, as a file without other content.
    fn printed(&self) -> String {
        if self.is_toml {
            self.in_toml("", true).unwrap_or_default()
        } else {
            self.in_json("", true).unwrap_or_default()
        }
    }

    /// The file with the entry added.
    fn merged(&self, text: &str, replaces: bool) -> Result<String, Error> {
        if self.is_toml {
            self.in_toml(text, replaces)
        } else {
            self.in_json(text, replaces)
        }
    }

    fn in_json(&self, text: &str, replaces: bool) -> Result<String, Error> {
        let mut document = match text.trim() {
            "" => Value::Object(Map::new()),
            text => serde_json::from_str(text)
                .map_err(|error| self.unreadable(&format!("it is not JSON, or it has comments ({error})")))?,
        };
        let fields = document
            .as_object_mut()
            .ok_or_else(|| self.unreadable("it is no object"))?;
        let servers = fields.entry(self.servers).or_insert_with(|| Value::Object(Map::new()));
        let servers = servers
            .as_object_mut()
            .ok_or_else(|| self.unreadable(&format!("its `{}` is no object", self.servers)))?;
        match servers.get(&self.name) {
            Some(entry) if *entry == self.entry => return Ok(text.to_owned()),
            Some(_) if !replaces => return Err(self.taken()),
            _ => servers.insert(self.name.clone(), self.entry.clone()),
        };
        Ok(format_json(&document, text))
    }

    fn in_toml(&self, text: &str, replaces: bool) -> Result<String, Error> {
        let parsed: Result<DocumentMut, _> = text.parse();
        let mut document = parsed.map_err(|error| self.unreadable(&format!("it is no TOML: {error}")))?;
        let servers = document.entry(self.servers).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let servers = servers
            .as_table_like_mut()
            .ok_or_else(|| self.unreadable(&format!("its `{}` is no table", self.servers)))?;
        match servers.get(&self.name) {
            Some(there) if json_of(there) == self.entry => return Ok(text.to_owned()),
            Some(_) if !replaces => return Err(self.taken()),
            _ => servers.insert(&self.name, Item::Table(toml_table(&self.entry))),
        };
        Ok(document.to_string())
    }

    fn file(&self) -> String {
        self.place
            .as_ref()
            .map_or_else(String::new, |place| place.display().to_string())
    }

    fn unreadable(&self, why: &str) -> Error {
        let message = format!("`{}` is not changed: {why}", self.file());
        Problem::new(ErrorKind::Usage, message)
            .with_hint("leave out `--write`, and put what is printed there yourself")
            .into()
    }

    fn taken(&self) -> Error {
        let message = format!("`{}` has another `{}` in `{}`", self.file(), self.name, self.servers);
        Problem::new(ErrorKind::Usage, message)
            .with_hint("`--yes` replaces it")
            .into()
    }
}

/// The repository that one of our entries serves.
fn root_of(entry: &Value) -> Option<&Path> {
    let arguments = entry["args"].as_array()?;
    let at = arguments.iter().position(|argument| argument == "--root")?;
    arguments.get(at + 1)?.as_str().map(Path::new)
}

/// JSON with the indentation of the file.
fn format_json(document: &Value, before: &str) -> String {
    let indent: String = before
        .lines()
        .skip(1)
        .find(|line| !line.trim().is_empty())
        .map(|line| line.chars().take_while(|&sign| matches!(sign, ' ' | '\t')).collect())
        .unwrap_or_default();
    let indent = if indent.is_empty() { "  " } else { &indent };
    let mut written = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut written, form);
    serde::Serialize::serialize(document, &mut serializer).expect("JSON goes into memory");
    String::from_utf8(written).expect("JSON is UTF-8") + "\n"
}

fn toml_table(entry: &Value) -> Table {
    let mut table = Table::new();
    for (name, field) in entry.as_object().into_iter().flatten() {
        let item = match field {
            Value::Array(texts) => value(texts.iter().filter_map(Value::as_str).collect::<Array>()),
            Value::Object(_) => Item::Table(self::toml_table(field)),
            field => value(field.as_str().unwrap_or_default()),
        };
        table.insert(name, item);
    }
    table
}

/// Converts a part of a TOML file to JSON. Types that our entries never have become text.
fn json_of(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return table
            .iter()
            .map(|(name, item)| (name.to_owned(), json_of(item)))
            .collect();
    }
    if let Some(array) = item.as_array() {
        return array.iter().map(|value| json_of(&Item::Value(value.clone()))).collect();
    }
    Value::String(item.as_str().map_or_else(|| item.to_string(), str::to_owned))
}

fn diff_file(place: &Path, before: Option<Vec<u8>>, after: &str) -> String {
    let state = |content: Vec<u8>| FileState { content, mode: 0o644 };
    let change = FileChange {
        path: place.to_string_lossy().trim_start_matches('/').to_owned(),
        before: before.map(state),
        after: Some(state(after.as_bytes().to_vec())),
    };
    FileDiff::new(&change).text
}

/// Writes the file, whole or not at all.
fn replace_file(place: &Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Error::on_file("Folder", folder, &error))?;
    }
    let mut file = AnswerFile::check_writable(place)?;
    file.push(text);
    file.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_entry(is_toml: bool) -> ClientEntry {
        ClientEntry {
            is_shared: false,
            place: Some("/home/me/file".into()),
            servers: if is_toml { "mcp_servers" } else { "mcpServers" },
            name: "tool".to_owned(),
            entry: json!({"command": "/bin/tool", "args": ["mcp", "--root", "/r"]}),
            is_toml,
        }
    }

    fn said(result: Result<String, Error>) -> String {
        match result {
            Err(Error::Problem(problem)) => problem.message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_in_a_json_file_stays_there_in_its_order_and_its_indentation() {
        let before = "{\n\t\"theme\": \"dark\",\n\t\"mcpServers\": {\n\t\t\"other\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t}\n}\n";
        let after = client_entry(false).merged(before, false).expect("it can be read");
        assert_eq!(
            after,
            "{\n\t\"theme\": \"dark\",\n\t\"mcpServers\": {\n\t\t\"other\": {\n\t\t\t\"command\": \"x\"\n\t\t},\n\t\t\"tool\": {\n\t\t\t\
             \"command\": \"/bin/tool\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\",\n\t\t\t\t\"--root\",\n\t\t\t\t\"/r\"\n\t\t\t]\n\t\t}\n\t}\n}\n"
        );
        assert_eq!(
            client_entry(false).merged(&after, false).expect("it is there"),
            after,
            "nothing is done twice"
        );
    }

    #[test]
    fn comments_of_toml_are_kept_and_those_of_json_make_it_unwritable() {
        let before = "# mine\nmodel = \"m\" # the best\n\n[mcp_servers.other] # theirs\ncommand = \"x\"\n";
        let after = client_entry(true).merged(before, false).expect("it can be read");
        assert_eq!(
            after,
            format!("{before}\n[mcp_servers.tool]\ncommand = \"/bin/tool\"\nargs = [\"mcp\", \"--root\", \"/r\"]\n")
        );
        assert_eq!(client_entry(true).merged(&after, false).expect("it is there"), after);
        let refused = said(client_entry(false).merged("{\n  // mine\n  \"a\": 1\n}\n", true));
        assert!(
            refused.starts_with("`/home/me/file` is not changed: it is not JSON, or it has comments"),
            "{refused}"
        );
        assert!(said(client_entry(true).merged("a = = 1", true)).contains("it is no TOML"));
    }

    #[test]
    fn another_entry_of_the_name_is_replaced_only_with_a_yes() {
        let json = "{\"mcpServers\": {\"tool\": {\"command\": \"x\"}}}";
        let toml = "[mcp_servers.tool]\ncommand = \"x\"\n";
        for (is_toml, text) in [(false, json), (true, toml)] {
            let refused = said(client_entry(is_toml).merged(text, false));
            assert!(
                refused.starts_with("`/home/me/file` has another `tool` in `mcp"),
                "{refused}"
            );
            let after = client_entry(is_toml).merged(text, true).expect("it is replaced");
            assert!(after.contains("/bin/tool") && !after.contains("\"x\""), "{after}");
        }
        assert_eq!(
            said(client_entry(false).merged("[]", true)),
            "`/home/me/file` is not changed: it is no object"
        );
        assert_eq!(
            said(client_entry(false).merged("{\"mcpServers\": 7}", true)),
            "`/home/me/file` is not changed: its `mcpServers` is no object"
        );
    }

    #[test]
    fn a_name_of_another_repository_is_left_to_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("file");
        let of = |root: &str| json!({"command": "/bin/tool", "args": ["mcp", "--root", root]});
        let named = |text: &str, is_toml: bool| {
            std::fs::write(&place, text).expect("the folder is writable");
            let mut form = ClientEntry {
                place: Some(place.clone()),
                ..client_entry(is_toml)
            };
            form.take_free_name(Path::new("/r"));
            form.name
        };
        let json = |entries: Value| json!({"mcpServers": entries}).to_string();
        assert_eq!(named(&json(json!({"tool": of("/r")})), false), "tool");
        assert_eq!(named(&json(json!({"tool": of("/other")})), false), "tool-2");
        let two = json!({"tool": of("/other"), "tool-2": of("/third")});
        assert_eq!(named(&json(two), false), "tool-3");
        let known = json!({"tool": of("/other"), "tool-2": of("/r"), "tool-3": of("/third")});
        assert_eq!(named(&json(known), false), "tool-2");
        // The user decides about an entry that is not ours.
        assert_eq!(named(&json(json!({"tool": {"command": "x"}})), false), "tool");
        let toml = "[mcp_servers.tool]\ncommand = \"x\"\nargs = [\"mcp\", \"--root\", \"/other\"]\n";
        assert_eq!(named(toml, true), "tool-2");
        assert_eq!(named("broken {", false), "tool");
    }

    #[test]
    fn what_is_printed_is_a_whole_file() {
        insta::assert_snapshot!(client_entry(true).printed(), @r#"
        [mcp_servers.tool]
        command = "/bin/tool"
        args = ["mcp", "--root", "/r"]
        "#);
        let printed: Value = serde_json::from_str(&client_entry(false).printed()).expect("it is JSON");
        assert_eq!(printed["mcpServers"]["tool"]["args"][2], "/r");
    }
}
