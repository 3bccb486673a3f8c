//! Definitions and imports of one line, by language.

use super::{ParsedDefinition, ParsedImport};

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// The identifier at the beginning of `text`.
fn leading_identifier(text: &str) -> Option<&str> {
    let end = text.find(|character| !is_word(character)).unwrap_or(text.len());
    let name = &text[..end];
    (!name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit())).then_some(name)
}

/// Returns the text after `word`, if `text` begins with it as a whole word.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    rest.starts_with([' ', '\t']).then(|| rest.trim_start())
}

/// The content of the string literal at the beginning of `text`.
pub(super) fn leading_string(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\'' | '`'))?;
    let rest = &text[1..];
    rest.find(quote).map(|end| &rest[..end])
}

pub(super) fn python_definition(trimmed: &str, indent: usize) -> Option<&str> {
    let text = strip_word(trimmed, "async").unwrap_or(trimmed);
    if let Some(rest) = strip_word(text, "def")
        .or_else(|| strip_word(text, "class"))
        .or_else(|| strip_word(text, "cdef"))
    {
        return leading_identifier(rest);
    }
    // A module's own names: `NAME = …`, `Name: Type = …`.
    let name = (indent == 0).then(|| leading_identifier(text)).flatten()?;
    let rest = text[name.len()..].trim_start();
    let assigned = rest.starts_with('=') && !rest.starts_with("==") || rest.starts_with(':') && rest.contains('=');
    assigned.then_some(name)
}

/// Reads an import statement. Returns level and module while its parenthesis is open.
pub(super) fn python_import<'a>(
    trimmed: &'a str,
    import: &mut impl FnMut(ParsedImport<'a>),
) -> Option<(usize, &'a str)> {
    if let Some(rest) = strip_word(trimmed, "import") {
        for part in rest.split(',') {
            let module = leading_dotted_name(part.trim());
            if !module.is_empty() {
                import(ParsedImport::Python {
                    level: 0,
                    module,
                    name: None,
                });
            }
        }
        return None;
    }
    let rest = strip_word(trimmed, "from")?;
    let level = rest.len() - rest.trim_start_matches('.').len();
    let module = leading_dotted_name(&rest[level..]);
    let rest = rest[level + module.len()..].trim_start();
    let names = rest.strip_prefix("import")?.trim_start();
    match names.strip_prefix('(') {
        Some(names) => python_names((level, module), names, import),
        None => {
            python_names((level, module), names, import);
            None
        }
    }
}

/// Reads imported names up to a closing parenthesis; returns the import while it is open.
pub(super) fn python_names<'a>(
    (level, module): (usize, &'a str),
    names: &'a str,
    import: &mut impl FnMut(ParsedImport<'a>),
) -> Option<(usize, &'a str)> {
    let names = names.split('#').next().unwrap_or(names);
    let (names, closed) = match names.split_once(')') {
        Some((names, _)) => (names, true),
        None => (names, false),
    };
    for part in names.split(',') {
        if let Some(name) = leading_identifier(part.trim()) {
            import(ParsedImport::Python {
                level,
                module,
                name: Some(name),
            });
        } else if part.trim() == "*" {
            import(ParsedImport::Python {
                level,
                module,
                name: None,
            });
        }
    }
    (!closed).then_some((level, module))
}

fn leading_dotted_name(text: &str) -> &str {
    let end = text
        .find(|character: char| !(is_word(character) || character == '.'))
        .unwrap_or(text.len());
    &text[..end]
}

pub(super) fn script_definition(trimmed: &str, indent: usize) -> Option<&str> {
    // `module.exports = class Cart` defines it by its own name.
    let assigned = strip_word(trimmed, "module.exports").and_then(|rest| rest.strip_prefix('='));
    let mut text = assigned.map_or(trimmed, str::trim_start);
    for word in [
        "export",
        "default",
        "declare",
        "abstract",
        "async",
        "public",
        "private",
        "protected",
        "static",
    ] {
        text = strip_word(text, word).unwrap_or(text);
    }
    for word in [
        "function*",
        "function",
        "class",
        "interface",
        "enum",
        "namespace",
        "type",
    ] {
        if let Some(rest) = strip_word(text, word) {
            return leading_identifier(rest);
        }
    }
    if assigned.is_some() {
        return None;
    }
    for word in ["const", "let", "var"] {
        if let Some(rest) = strip_word(text, word) {
            let value = rest.split_once('=').map_or("", |(_, value)| value.trim_start());
            let is_import = value.starts_with("require(") || value.starts_with("await import(");
            return (indent == 0 && !is_import).then(|| leading_identifier(rest)).flatten();
        }
    }
    if let Some(rest) = text
        .strip_prefix("exports.")
        .or_else(|| text.strip_prefix("module.exports."))
    {
        return leading_identifier(rest);
    }
    script_member(text)
}

/// `name(arguments) {`, `name: function`, `get name() {`, `Type.prototype.name = `.
fn script_member(text: &str) -> Option<&str> {
    const STATEMENTS: &[&str] = &[
        "if", "for", "while", "switch", "catch", "return", "function", "with", "do", "else", "await", "new",
    ];
    if let Some((_, rest)) = text.split_once(".prototype.") {
        return leading_identifier(rest).filter(|name| rest[name.len()..].trim_start().starts_with('='));
    }
    let text = strip_word(text, "get")
        .or_else(|| strip_word(text, "set"))
        .unwrap_or(text);
    let name = leading_identifier(text.trim_start_matches(['#', '*']))?;
    let rest = text.trim_start_matches(['#', '*'])[name.len()..].trim_start();
    let method = rest.starts_with('(') && text.trim_end().ends_with('{');
    let property = rest.starts_with(':') && (rest.contains("function") || rest.contains("=>"));
    ((method || property) && !STATEMENTS.contains(&name)).then_some(name)
}

pub(super) fn script_imports<'a>(trimmed: &'a str, import: &mut impl FnMut(ParsedImport<'a>)) {
    let statement = trimmed.starts_with("import") || trimmed.starts_with("export") || trimmed.starts_with('}');
    if statement
        && let Some((_, rest)) = trimmed.rsplit_once(" from ").or_else(|| trimmed.split_once("import "))
        && let Some(path) = leading_string(rest.trim_start())
    {
        import(ParsedImport::Path(path));
        return;
    }
    for call in ["require(", "import("] {
        for (at, _) in trimmed.match_indices(call) {
            if let Some(path) = leading_string(trimmed[at + call.len()..].trim_start()) {
                import(ParsedImport::Path(path));
            }
        }
    }
}

pub(super) fn ruby_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    define: &mut impl FnMut(ParsedDefinition<'a>),
    import: &mut impl FnMut(ParsedImport<'a>),
) {
    let argument = |word| {
        let rest = trimmed.strip_prefix(word)?;
        let rest = rest.strip_prefix([' ', '('])?.trim_start();
        leading_string(rest)
    };
    if let Some(path) = argument("require_relative") {
        return import(ParsedImport::RubyRelative(path));
    }
    let loaded =
        || strip_word(trimmed, "autoload").and_then(|rest| leading_string(rest.split_once(',')?.1.trim_start()));
    if let Some(path) = argument("require").or_else(loaded) {
        return import(ParsedImport::Ruby(path));
    }
    for word in ["def", "class", "module"] {
        let Some(rest) = strip_word(trimmed, word) else {
            continue;
        };
        let rest = rest.trim_start_matches("self.");
        // `class A::B` is found as `B`.
        let end = rest.find(|sign| !is_word(sign) && sign != ':').unwrap_or(rest.len());
        if let Some(name) = leading_identifier(rest[..end].rsplit("::").next().unwrap_or_default()) {
            define(ParsedDefinition::new(name, number, indent));
        }
        return;
    }
}

pub(super) fn rust_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    define: &mut impl FnMut(ParsedDefinition<'a>),
    import: &mut impl FnMut(ParsedImport<'a>),
) {
    let mut text = trimmed;
    if let Some(rest) = text.strip_prefix("pub") {
        let rest = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest),
            None => rest,
        };
        text = rest.trim_start();
    }
    for word in ["default", "const", "async", "unsafe", "extern \"C\""] {
        // `const NAME` is a definition, `const fn` is not.
        if word != "const" || text.starts_with("const fn") || text.starts_with("const unsafe") {
            text = strip_word(text, word).unwrap_or(text);
        }
    }
    if let Some(rest) = strip_word(text, "use") {
        import(ParsedImport::RustUse(
            rest.split(['{', ';']).next().unwrap_or(rest).trim(),
        ));
        return;
    }
    if let Some(name) = strip_word(text, "mod").and_then(leading_identifier) {
        if text.trim_end().ends_with(';') {
            import(ParsedImport::RustModule(name));
        }
        return;
    }
    for word in [
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "const",
        "static",
        "union",
        "macro_rules!",
    ] {
        if let Some(name) = strip_word(text, word).and_then(leading_identifier) {
            define(ParsedDefinition::new(name, number, indent));
            return;
        }
    }
}

pub(super) fn go_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    block: &mut bool,
    define: &mut impl FnMut(ParsedDefinition<'a>),
    import: &mut impl FnMut(ParsedImport<'a>),
) {
    if *block {
        *block = !trimmed.starts_with(')');
        if let Some(path) = trimmed.find('"').and_then(|at| leading_string(&trimmed[at..])) {
            import(ParsedImport::Go(path));
        }
        return;
    }
    if let Some(rest) = trimmed.strip_prefix("import").filter(|_| indent == 0) {
        *block = rest.trim_start().starts_with('(');
        if let Some(path) = rest.find('"').and_then(|at| leading_string(&rest[at..])) {
            import(ParsedImport::Go(path));
        }
        return;
    }
    if indent > 0 {
        return;
    }
    let name = if let Some(rest) = strip_word(trimmed, "func") {
        // The receiver of a method precedes its name.
        let rest = match rest.strip_prefix('(') {
            Some(receiver) => receiver.split_once(')').map_or("", |(_, rest)| rest.trim_start()),
            None => rest,
        };
        leading_identifier(rest)
    } else {
        ["type", "var", "const"]
            .iter()
            .find_map(|word| strip_word(trimmed, word))
            .and_then(leading_identifier)
    };
    if let Some(name) = name {
        define(ParsedDefinition::new(name, number, indent));
    }
}

pub(super) fn java_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    define: &mut impl FnMut(ParsedDefinition<'a>),
    import: &mut impl FnMut(ParsedImport<'a>),
) {
    if let Some(rest) = strip_word(trimmed, "import") {
        import(ParsedImport::Java(
            leading_dotted_name(strip_word(rest, "static").unwrap_or(rest)).trim_end_matches('.'),
        ));
        return;
    }
    for word in [
        "class ",
        "interface ",
        "enum ",
        "record ",
        "@interface ",
        "fun ",
        "object ",
    ] {
        if let Some((before, rest)) = trimmed.split_once(word)
            && before
                .split(' ')
                .all(|part| part.chars().all(|c| c.is_ascii_lowercase()))
            && let Some(name) = leading_identifier(rest)
        {
            define(ParsedDefinition::new(name, number, indent));
            return;
        }
    }
    let modified = [
        "public ",
        "private ",
        "protected ",
        "static ",
        "final ",
        "abstract ",
        "synchronized ",
    ];
    if modified.iter().any(|word| trimmed.starts_with(word))
        && let Some((before, _)) = trimmed.split_once('(')
        && !before.contains('=')
        && let Some(name) = before.rsplit([' ', '\t']).next().and_then(leading_identifier)
    {
        define(ParsedDefinition::new(name, number, indent));
    }
}
