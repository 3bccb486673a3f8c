const test = require("node:test");
const assert = require("node:assert");
const { Cart } = require("../src/cart");

test("an empty cart is free", () => {
  assert.strictEqual(new Cart().total(), 0);
});

test("items are counted", () => {
  const cart = new Cart();
  cart.add("apple", 2);
  cart.add("apple");
  assert.strictEqual(cart.total(), 90);
});

test("a count of zero is refused", () => {
  assert.throws(() => new Cart().add("milk", 0), RangeError);
});
