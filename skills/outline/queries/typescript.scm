; Nodes that JavaScript's grammar does not have.
(ambient_declaration) @wrapper
(object_type) @body
(interface_body) @body

(function_signature name: (identifier) @name) @definition.function
(method_signature name: (property_identifier) @name) @definition.function
(abstract_method_signature name: (property_identifier) @name) @definition.function
(assignment_expression left: (member_expression object: (identifier) @object) right: (class name: (type_identifier) @name) (#any-of? @object "module")) @definition.type
(class_declaration name: (type_identifier) @name) @definition.type
(abstract_class_declaration name: (type_identifier) @name) @definition.type
(interface_declaration name: (type_identifier) @name) @definition.type
(type_alias_declaration name: (type_identifier) @name) @definition.type
(enum_declaration name: (identifier) @name) @definition.type
(internal_module name: (identifier) @name) @definition.module
(module name: (identifier) @name) @definition.module
(public_field_definition name: (property_identifier) @name) @definition.value
(public_field_definition name: (private_property_identifier) @name) @definition.value
(property_signature name: (property_identifier) @name) @definition.value

(extends_clause value: (identifier) @name) @reference.type
(nested_type_identifier module: (identifier) @name) @reference.name
(type_identifier) @name @reference.type
