const { priceOf } = require("./prices");

class Cart {
  constructor() {
    this.counts = new Map();
  }

  add(name, count = 1) {
    if (count < 1) throw new RangeError("count must be at least 1");
    this.counts.set(name, (this.counts.get(name) ?? 0) + count);
  }

  total() {
    let total = 0;
    for (const [name, count] of this.counts) total += priceOf(name) * count;
    return total;
  }
}

module.exports = { Cart };
