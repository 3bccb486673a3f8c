; Nodes that TypeScript's grammar calls otherwise.
(field_definition property: (property_identifier) @name) @definition.value
(field_definition property: (private_property_identifier) @name) @definition.value
