; Nodes that TypeScript's grammar calls otherwise.
(field_definition property: (property_identifier) @name) @definition.value
(field_definition property: (private_property_identifier) @name) @definition.value
(assignment_expression left: (member_expression object: (identifier) @object) right: (class name: (identifier) @name) (#any-of? @object "module")) @definition.type
