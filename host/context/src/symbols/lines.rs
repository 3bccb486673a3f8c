//! Definitions and imports of one line, by language.

use super::{Definition, Import};

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// The identifier at the beginning of `text`.
fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|character| !is_word(character)).unwrap_or(text.len());
    let name = &text[..end];
    (!name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit())).then_some(name)
}

/// Returns the text after `word`, if `text` begins with it as a whole word.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    rest.starts_with([' ', '\t']).then(|| rest.trim_start())
}

/// The content of the string literal at the beginning of `text`.
pub(super) fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\'' | '`'))?;
    let rest = &text[1..];
    rest.find(quote).map(|end| &rest[..end])
}

pub(super) fn python_definition(trimmed: &str, indent: usize) -> Option<&str> {
    let text = after(trimmed, "async").unwrap_or(trimmed);
    if let Some(rest) = after(text, "def")
        .or_else(|| after(text, "class"))
        .or_else(|| after(text, "cdef"))
    {
        return identifier(rest);
    }
    // A module's own names: `NAME = …`, `Name: Type = …`.
    let name = (indent == 0).then(|| identifier(text)).flatten()?;
    let rest = text[name.len()..].trim_start();
    let assigned = rest.starts_with('=') && !rest.starts_with("==") || rest.starts_with(':') && rest.contains('=');
    assigned.then_some(name)
}

/// Reads an import statement. Returns level and module while its parenthesis is open.
pub(super) fn python_import<'a>(trimmed: &'a str, import: &mut impl FnMut(Import<'a>)) -> Option<(usize, &'a str)> {
    if let Some(rest) = after(trimmed, "import") {
        for part in rest.split(',') {
            let module = dotted(part.trim());
            if !module.is_empty() {
                import(Import::Python {
                    level: 0,
                    module,
                    name: None,
                });
            }
        }
        return None;
    }
    let rest = after(trimmed, "from")?;
    let level = rest.len() - rest.trim_start_matches('.').len();
    let module = dotted(&rest[level..]);
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
    import: &mut impl FnMut(Import<'a>),
) -> Option<(usize, &'a str)> {
    let names = names.split('#').next().unwrap_or(names);
    let (names, closed) = match names.split_once(')') {
        Some((names, _)) => (names, true),
        None => (names, false),
    };
    for part in names.split(',') {
        if let Some(name) = identifier(part.trim()) {
            import(Import::Python {
                level,
                module,
                name: Some(name),
            });
        } else if part.trim() == "*" {
            import(Import::Python {
                level,
                module,
                name: None,
            });
        }
    }
    (!closed).then_some((level, module))
}

fn dotted(text: &str) -> &str {
    let end = text
        .find(|character: char| !(is_word(character) || character == '.'))
        .unwrap_or(text.len());
    &text[..end]
}

pub(super) fn script_definition(trimmed: &str, indent: usize) -> Option<&str> {
    // `module.exports = class Cart` defines it by its own name.
    let assigned = after(trimmed, "module.exports").and_then(|rest| rest.strip_prefix('='));
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
        text = after(text, word).unwrap_or(text);
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
        if let Some(rest) = after(text, word) {
            return identifier(rest);
        }
    }
    if assigned.is_some() {
        return None;
    }
    for word in ["const", "let", "var"] {
        if let Some(rest) = after(text, word) {
            return (indent == 0).then(|| identifier(rest)).flatten();
        }
    }
    if let Some(rest) = text
        .strip_prefix("exports.")
        .or_else(|| text.strip_prefix("module.exports."))
    {
        return identifier(rest);
    }
    script_member(text)
}

/// `name(arguments) {`, `name: function`, `get name() {`, `Type.prototype.name = `.
fn script_member(text: &str) -> Option<&str> {
    const STATEMENTS: &[&str] = &[
        "if", "for", "while", "switch", "catch", "return", "function", "with", "do", "else", "await", "new",
    ];
    if let Some((_, rest)) = text.split_once(".prototype.") {
        return identifier(rest).filter(|name| rest[name.len()..].trim_start().starts_with('='));
    }
    let text = after(text, "get").or_else(|| after(text, "set")).unwrap_or(text);
    let name = identifier(text.trim_start_matches(['#', '*']))?;
    let rest = text.trim_start_matches(['#', '*'])[name.len()..].trim_start();
    let method = rest.starts_with('(') && text.trim_end().ends_with('{');
    let property = rest.starts_with(':') && (rest.contains("function") || rest.contains("=>"));
    ((method || property) && !STATEMENTS.contains(&name)).then_some(name)
}

pub(super) fn script_imports<'a>(trimmed: &'a str, import: &mut impl FnMut(Import<'a>)) {
    let statement = trimmed.starts_with("import") || trimmed.starts_with("export") || trimmed.starts_with('}');
    if statement
        && let Some((_, rest)) = trimmed.rsplit_once(" from ").or_else(|| trimmed.split_once("import "))
        && let Some(path) = quoted(rest.trim_start())
    {
        import(Import::Path(path));
        return;
    }
    for call in ["require(", "import("] {
        for (at, _) in trimmed.match_indices(call) {
            if let Some(path) = quoted(trimmed[at + call.len()..].trim_start()) {
                import(Import::Path(path));
            }
        }
    }
}

pub(super) fn ruby_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    define: &mut impl FnMut(Definition<'a>),
    import: &mut impl FnMut(Import<'a>),
) {
    let argument = |word| {
        let rest = trimmed.strip_prefix(word)?;
        let rest = rest.strip_prefix([' ', '('])?.trim_start();
        quoted(rest)
    };
    if let Some(path) = argument("require_relative") {
        return import(Import::RubyRelative(path));
    }
    let loaded = || after(trimmed, "autoload").and_then(|rest| quoted(rest.split_once(',')?.1.trim_start()));
    if let Some(path) = argument("require").or_else(loaded) {
        return import(Import::Ruby(path));
    }
    for word in ["def", "class", "module"] {
        let Some(rest) = after(trimmed, word) else {
            continue;
        };
        let rest = rest.trim_start_matches("self.");
        // `class A::B` is found as `B`.
        let end = rest.find(|sign| !is_word(sign) && sign != ':').unwrap_or(rest.len());
        if let Some(name) = identifier(rest[..end].rsplit("::").next().unwrap_or_default()) {
            define(Definition::new(name, number, indent));
        }
        return;
    }
}

pub(super) fn rust_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    define: &mut impl FnMut(Definition<'a>),
    import: &mut impl FnMut(Import<'a>),
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
            text = after(text, word).unwrap_or(text);
        }
    }
    if let Some(rest) = after(text, "use") {
        import(Import::RustUse(rest.split(['{', ';']).next().unwrap_or(rest).trim()));
        return;
    }
    if let Some(name) = after(text, "mod").and_then(identifier) {
        if text.trim_end().ends_with(';') {
            import(Import::RustModule(name));
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
        if let Some(name) = after(text, word).and_then(identifier) {
            define(Definition::new(name, number, indent));
            return;
        }
    }
}

pub(super) fn go_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    block: &mut bool,
    define: &mut impl FnMut(Definition<'a>),
    import: &mut impl FnMut(Import<'a>),
) {
    if *block {
        *block = !trimmed.starts_with(')');
        if let Some(path) = trimmed.find('"').and_then(|at| quoted(&trimmed[at..])) {
            import(Import::Go(path));
        }
        return;
    }
    if let Some(rest) = trimmed.strip_prefix("import").filter(|_| indent == 0) {
        *block = rest.trim_start().starts_with('(');
        if let Some(path) = rest.find('"').and_then(|at| quoted(&rest[at..])) {
            import(Import::Go(path));
        }
        return;
    }
    if indent > 0 {
        return;
    }
    let name = if let Some(rest) = after(trimmed, "func") {
        // The receiver of a method precedes its name.
        let rest = match rest.strip_prefix('(') {
            Some(receiver) => receiver.split_once(')').map_or("", |(_, rest)| rest.trim_start()),
            None => rest,
        };
        identifier(rest)
    } else {
        ["type", "var", "const"]
            .iter()
            .find_map(|word| after(trimmed, word))
            .and_then(identifier)
    };
    if let Some(name) = name {
        define(Definition::new(name, number, indent));
    }
}

pub(super) fn java_line<'a>(
    trimmed: &'a str,
    indent: usize,
    number: u32,
    define: &mut impl FnMut(Definition<'a>),
    import: &mut impl FnMut(Import<'a>),
) {
    if let Some(rest) = after(trimmed, "import") {
        import(Import::Java(
            dotted(after(rest, "static").unwrap_or(rest)).trim_end_matches('.'),
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
            && let Some(name) = identifier(rest)
        {
            define(Definition::new(name, number, indent));
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
        && let Some(name) = before.rsplit([' ', '\t']).next().and_then(identifier)
    {
        define(Definition::new(name, number, indent));
    }
}
