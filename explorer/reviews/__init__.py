"""Plans looked over before they are used: one by a list of questions, two by what differs between them."""
