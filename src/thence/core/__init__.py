"""What every room speaks: dots, messages, the machine contract, errors."""
