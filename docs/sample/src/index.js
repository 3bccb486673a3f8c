const { Cart } = require("./cart");

const cart = new Cart();
for (const name of process.argv.slice(2)) cart.add(name);
console.log((cart.total() / 100).toFixed(2));
