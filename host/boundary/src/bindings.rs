//! The host side of `wit/skill.wit`, generated.
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "generated from `wit/skill.wit`, which documents it"
)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "skill",
    // A host function may end its guest: at the deadline, on cancellation, at a bound.
    imports: { default: trappable },
});
