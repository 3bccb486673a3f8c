//! Places on this machine that the tools of a recipe need: toolchains to read, and package caches below a private
//! layer.
//!
//! A run sees only the parts that a recipe names. Other files in the same folders may hold credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::settings;
use crate::CallContext;
use crate::imports::recipe;
use crate::recipes::{self, Interpreter, TestRecipe, ToolHome};
use tool_core::api::RunPurpose;
use tool_sandbox::environment;
use tool_sandbox::program_sandbox::{LayeredFolder, ToolAccess};

/// npm in place of a package manager that is missing: the script starts the installed runner by either.
pub(super) fn find_stand_in(
    environment: &BTreeMap<String, String>,
    root: &Path,
    folder: &Path,
    data: &TestRecipe,
) -> Option<&'static TestRecipe> {
    let is_there = |name: &str| !environment::find_programs_outside(environment, name, root).is_empty();
    if data.interpreter != Interpreter::Script || is_there(&data.program) {
        return None;
    }
    let mut folders = folder.ancestors().take_while(|above| above.starts_with(root));
    let has_packages = folders.any(|above| above.join("node_modules/.bin").is_dir());
    recipes::find_recipe("npm").filter(|npm| has_packages && is_there(&npm.program))
}

/// The places that a recipe needs for its program.
pub(super) fn tool_access(context: &CallContext, data: &TestRecipe, program: &Path) -> ToolAccess {
    // A Makefile may start any of the other programs.
    if data.runner().last {
        return access_for_all(context);
    }
    let mut tools = ToolAccess::default();
    add_access(&mut tools, context, data);
    tools.shown.extend(find_installation(program, &data.marks));
    tools
}

/// The places that any recipe needs, for commands that may start every runner.
pub(super) fn access_for_all(context: &CallContext) -> ToolAccess {
    let mut tools = ToolAccess::default();
    for data in recipes::recipes_for(RunPurpose::Tests) {
        add_access(&mut tools, context, data);
        if let Some(program) = recipe::find_program(context, &data.program).filter(|_| !data.marks.is_empty()) {
            tools.shown.extend(find_installation(&program, &data.marks));
            tools.programs.push(data.program.clone());
        }
    }
    tools
}

fn add_access(tools: &mut ToolAccess, context: &CallContext, data: &TestRecipe) {
    for name in &data.programs {
        if !tools.programs.contains(name) {
            tools.programs.push(name.clone());
        }
    }
    for home in &data.homes {
        let Some(place) = find_tool_home(context, home) else {
            continue;
        };
        tools.shown.extend(home.show.iter().map(|part| place.join(part)));
        let copied = settings::copy_settings(&place, &home.settings);
        let user = context.environment.get("HOME").map(String::as_str);
        let elsewhere = settings::package_folders(&copied, &home.settings, user);
        tools.files.extend(copied);
        for folder in elsewhere {
            add_layer(tools, folder, &[String::new()]);
        }
        if !home.layers.is_empty() {
            add_layer(tools, place, &home.layers);
        }
    }
}

fn add_layer(tools: &mut ToolAccess, place: PathBuf, parts: &[String]) {
    let layer = LayeredFolder {
        place,
        parts: parts.iter().map(PathBuf::from).collect(),
    };
    if !tools.layers.contains(&layer) {
        tools.layers.push(layer);
    }
}

/// Places of build caches that a folder of the build cache replaces.
pub(super) fn build_places(context: &CallContext, data: &TestRecipe) -> Vec<PathBuf> {
    let homes = data.homes.iter().filter(|home| home.build);
    homes.filter_map(|home| find_tool_home(context, home)).collect()
}

/// The user's variables that name these places.
pub(super) fn tool_variables(context: &CallContext, data: &TestRecipe) -> BTreeMap<String, String> {
    let named = data.homes.iter().filter_map(|home| home.variable.as_ref());
    let set = named.filter_map(|name| Some((name.clone(), context.environment.get(name)?.clone())));
    set.collect()
}

/// True if the user has run the project's wrapper before. Otherwise the wrapper would download its program.
pub(super) fn has_wrapper_cache(context: &CallContext, data: &TestRecipe) -> bool {
    let places = data.homes.iter().filter_map(|home| find_tool_home(context, home));
    places.into_iter().any(|place| place.join("wrapper/dists").is_dir())
}

/// Folder of a tool: from its variable, or at its default place.
fn find_tool_home(context: &CallContext, home: &ToolHome) -> Option<PathBuf> {
    let environment = &context.environment;
    let set = home
        .variable
        .as_ref()
        .and_then(|name| environment.get(name))
        .map(PathBuf::from);
    let usual = || Some(PathBuf::from(environment.get("HOME")?).join(&home.place));
    set.or_else(usual).filter(|place| place.is_absolute())
}

/// The folder above a program, after following links, that has all of these entries.
fn find_installation(program: &Path, marks: &[String]) -> Option<PathBuf> {
    if marks.is_empty() {
        return None;
    }
    let real = program.canonicalize().ok()?;
    let is_marked = |folder: &&Path| marks.iter().all(|mark| folder.join(mark).exists());
    real.ancestors().skip(1).find(is_marked).map(Path::to_owned)
}
