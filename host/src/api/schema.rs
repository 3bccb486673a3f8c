//! Schemas that no derive can say: maps with a closed set of names.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::Overrides;
use crate::config::FORWARDED;

impl PartialSchema for Overrides {
    fn schema() -> RefOr<Schema> {
        let names = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(FORWARDED));
        ObjectBuilder::new()
            .description(Some(
                "Environment variables of the session's starter that matter, by name. Never journalled, never shown.",
            ))
            .property_names(Some(names.build()))
            .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(
                Object::with_type(Type::String).into(),
            ))))
            .into()
    }
}

impl ToSchema for Overrides {}
