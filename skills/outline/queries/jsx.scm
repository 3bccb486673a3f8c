; Elements of markup.
(jsx_opening_element name: (identifier) @name) @reference.call
(jsx_self_closing_element name: (identifier) @name) @reference.call
(jsx_attribute (property_identifier) @name) @reference.attribute
