const PRICES = { apple: 30, bread: 250, milk: 120 };

function priceOf(name) {
  if (!(name in PRICES)) throw new Error(`no price for ${name}`);
  return PRICES[name];
}

module.exports = { priceOf };
