"""Who may do what: the policy, the person's answers, and the grants those answers leave behind.

Rules of the room:

- One decision point. ``policy.decide`` says Allow, AskPerson or Deny; nothing else lets a tool run.
- Fail closed. Only an explicit allow option of a live ask is an approval; everything else that can
  come back, or fail to, is a refusal with a sentence that says why.
- What the person is shown is what is granted: names are built from the same values as the grants.
- Everything but ``broker`` is pure. ``broker`` alone uses Trio, for the one wait there is.
- Nothing here outlives the session, and nothing here can be widened by what a tool read.
"""
