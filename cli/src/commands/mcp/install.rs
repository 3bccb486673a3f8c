//! `tool mcp install`: the configuration that other agents want, printed, or put into their files.
//!
//! What is in a file stays there. A form that cannot be kept whole, JSON with comments, is not written but printed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use host::api::Problem;
use host::skill::diff::FileDiff;
use host::skill::policy::Grant;
use host::skill::{FileChange, FileState};
use serde_json::{Map, Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::args::{Install, McpClient};
use crate::commands::{Context, path_text};
use crate::error::Error;
use crate::output::AnswerFile;

/// How a client is told of a server.
struct Form {
    /// Its file; absent where only the user knows.
    place: Option<PathBuf>,
    /// Under which key the servers are.
    servers: &'static str,
    /// Name of the entry.
    name: String,
    /// What stands there.
    entry: Value,
    is_toml: bool,
}

/// Prints the configuration of a client, or writes it into its file.
pub(super) fn run(install: &Install, root: &Path, context: &Context) -> Result<ExitCode, Error> {
    let form = form(install, root, context)?;
    let output = context.output;
    if !install.write {
        output.answer(&form.printed())?;
        if let Some(place) = &form.place {
            output.progress(&format!("goes into {}; `--write` puts it there", place.display()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(place) = &form.place else {
        return Err(Problem::new("usage", "Which file this is for is not known")
            .with_hint("leave out `--write`, and put what is printed where your client reads it")
            .into());
    };
    let before = match std::fs::read(place) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::file("Configuration", place, &error)),
    };
    let text = String::from_utf8(before.clone().unwrap_or_default()).map_err(|_| form.unreadable("it is not UTF-8"))?;
    let after = form.merged(&text, install.yes)?;
    if after == text {
        output.progress(&format!("{} has it already", place.display()));
        return Ok(ExitCode::SUCCESS);
    }
    output.ask(&difference(place, before, &after));
    write(place, &after)?;
    output.progress(&format!("written to {}", place.display()));
    Ok(ExitCode::SUCCESS)
}

fn form(install: &Install, root: &Path, context: &Context) -> Result<Form, Error> {
    let program = std::env::current_exe().map_err(|error| Error::new("usage", format!("Where am I? {error}")))?;
    let mut arguments = vec!["mcp".to_owned(), "--root".to_owned(), path_text(root)?];
    for effect in &install.allow {
        effect.parse::<Grant>()?;
        arguments.extend(["--allow".to_owned(), effect.clone()]);
    }
    let mut entry = json!({"command": path_text(&program)?, "args": arguments});
    let environment = &context.backend.environment;
    // Agents start their servers with little of an environment.
    if let Some(home) = environment.get("TOOL_HOME") {
        entry["env"] = json!({"TOOL_HOME": home});
    }
    let home = environment.get("HOME").map(PathBuf::from);
    let at_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let folder = root
        .file_name()
        .map_or_else(|| "root".into(), |name| name.to_string_lossy());
    // A file of the user's serves every repository: each gets an entry of its own.
    let own = format!("tool-{folder}");
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
    Ok(Form {
        place,
        servers,
        name,
        entry,
        is_toml: install.client == McpClient::Codex,
    })
}

#[cfg(target_os = "macos")]
const CLAUDE_DESKTOP: &str = "Library/Application Support/Claude/claude_desktop_config.json";
#[cfg(not(target_os = "macos"))]
const CLAUDE_DESKTOP: &str = ".config/Claude/claude_desktop_config.json";

impl Form {
    /// All of it, as a file that holds nothing else.
    fn printed(&self) -> String {
        match self.is_toml {
            true => self.in_toml("", true).unwrap_or_default(),
            false => self.in_json("", true).unwrap_or_default(),
        }
    }

    /// The file with the entry in it.
    fn merged(&self, text: &str, replaces: bool) -> Result<String, Error> {
        match self.is_toml {
            true => self.in_toml(text, replaces),
            false => self.in_json(text, replaces),
        }
    }

    fn in_json(&self, text: &str, replaces: bool) -> Result<String, Error> {
        let mut document = match text.trim() {
            "" => Value::Object(Map::new()),
            text => serde_json::from_str(text)
                .map_err(|error| self.unreadable(&format!("it is no JSON, or has comments ({error})")))?,
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
        Ok(indented(&document, text))
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
        let entry = table(&self.entry);
        match servers.get(&self.name) {
            Some(there) if same(there, &entry) => return Ok(text.to_owned()),
            Some(_) if !replaces => return Err(self.taken()),
            _ => servers.insert(&self.name, Item::Table(entry)),
        };
        Ok(document.to_string())
    }

    fn file(&self) -> String {
        self.place
            .as_ref()
            .map_or_else(String::new, |place| place.display().to_string())
    }

    fn unreadable(&self, why: &str) -> Error {
        let message = format!("`{}` is left alone: {why}", self.file());
        Problem::new("usage", message)
            .with_hint("leave out `--write`, and put what is printed there yourself")
            .into()
    }

    fn taken(&self) -> Error {
        let message = format!("`{}` has another `{}` in `{}`", self.file(), self.name, self.servers);
        Problem::new("usage", message).with_hint("`--yes` replaces it").into()
    }
}

/// JSON with the indentation that the file has.
fn indented(document: &Value, before: &str) -> String {
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

/// An entry as a table.
fn table(entry: &Value) -> Table {
    let mut table = Table::new();
    for (name, field) in entry.as_object().into_iter().flatten() {
        let item = match field {
            Value::Array(texts) => value(texts.iter().filter_map(Value::as_str).collect::<Array>()),
            Value::Object(_) => Item::Table(self::table(field)),
            field => value(field.as_str().unwrap_or_default()),
        };
        table.insert(name, item);
    }
    table
}

/// True where both say the same, whatever stands around it.
fn same(there: &Item, entry: &Table) -> bool {
    let Some(there) = there.as_table_like() else {
        return false;
    };
    let texts = |item: &Item| match item.as_array() {
        Some(array) => array.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
        None => vec![item.as_str().map(str::to_owned)],
    };
    there.len() == entry.len()
        && entry
            .iter()
            .all(|(name, item)| match (there.get(name), item.as_table()) {
                (Some(there), Some(table)) => same(there, table),
                (Some(there), None) => texts(there) == texts(item),
                (None, _) => false,
            })
}

fn difference(place: &Path, before: Option<Vec<u8>>, after: &str) -> String {
    let state = |content: Vec<u8>| FileState { content, mode: 0o644 };
    let change = FileChange {
        path: place.to_string_lossy().trim_start_matches('/').to_owned(),
        before: before.map(state),
        after: Some(state(after.as_bytes().to_vec())),
    };
    FileDiff::new(&change).text
}

/// Puts the file in place, whole or not at all.
fn write(place: &Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Error::file("Folder", folder, &error))?;
    }
    let mut file = AnswerFile::prepare(place)?;
    file.push(text);
    file.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(is_toml: bool) -> Form {
        Form {
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
        let after = form(false).merged(before, false).expect("it can be read");
        assert_eq!(
            after,
            "{\n\t\"theme\": \"dark\",\n\t\"mcpServers\": {\n\t\t\"other\": {\n\t\t\t\"command\": \"x\"\n\t\t},\n\t\t\"tool\": {\n\t\t\t\
             \"command\": \"/bin/tool\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\",\n\t\t\t\t\"--root\",\n\t\t\t\t\"/r\"\n\t\t\t]\n\t\t}\n\t}\n}\n"
        );
        assert_eq!(
            form(false).merged(&after, false).expect("it is there"),
            after,
            "nothing is done twice"
        );
    }

    #[test]
    fn comments_of_toml_are_kept_and_those_of_json_make_it_unwritable() {
        let before = "# mine\nmodel = \"m\" # the best\n\n[mcp_servers.other] # theirs\ncommand = \"x\"\n";
        let after = form(true).merged(before, false).expect("it can be read");
        assert_eq!(
            after,
            format!("{before}\n[mcp_servers.tool]\ncommand = \"/bin/tool\"\nargs = [\"mcp\", \"--root\", \"/r\"]\n")
        );
        assert_eq!(form(true).merged(&after, false).expect("it is there"), after);
        let refused = said(form(false).merged("{\n  // mine\n  \"a\": 1\n}\n", true));
        assert!(
            refused.starts_with("`/home/me/file` is left alone: it is no JSON, or has comments"),
            "{refused}"
        );
        assert!(said(form(true).merged("a = = 1", true)).contains("it is no TOML"));
    }

    #[test]
    fn another_entry_of_the_name_is_replaced_only_with_a_yes() {
        let json = "{\"mcpServers\": {\"tool\": {\"command\": \"x\"}}}";
        let toml = "[mcp_servers.tool]\ncommand = \"x\"\n";
        for (is_toml, text) in [(false, json), (true, toml)] {
            let refused = said(form(is_toml).merged(text, false));
            assert!(
                refused.starts_with("`/home/me/file` has another `tool` in `mcp"),
                "{refused}"
            );
            let after = form(is_toml).merged(text, true).expect("it is replaced");
            assert!(after.contains("/bin/tool") && !after.contains("\"x\""), "{after}");
        }
        assert_eq!(
            said(form(false).merged("[]", true)),
            "`/home/me/file` is left alone: it is no object"
        );
        assert_eq!(
            said(form(false).merged("{\"mcpServers\": 7}", true)),
            "`/home/me/file` is left alone: its `mcpServers` is no object"
        );
    }

    #[test]
    fn what_is_printed_is_a_whole_file() {
        insta::assert_snapshot!(form(true).printed(), @r#"
        [mcp_servers.tool]
        command = "/bin/tool"
        args = ["mcp", "--root", "/r"]
        "#);
        let printed: Value = serde_json::from_str(&form(false).printed()).expect("it is JSON");
        assert_eq!(printed["mcpServers"]["tool"]["args"][2], "/r");
    }
}
