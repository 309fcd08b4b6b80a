package tokenizer

// matcher finds added tokens in text: at each position the longest one, from left to right.
type matcher struct {
	nodes []trieNode
	first [256]bool // bytes that some token starts with
}

type trieNode struct {
	edges []trieEdge
	id    int32 // NoToken unless a token ends here
}

type trieEdge struct {
	b    byte
	node int32
}

// newMatcher returns nil if there is nothing to match.
func newMatcher(tokens map[string]int32) *matcher {
	if len(tokens) == 0 {
		return nil
	}
	m := &matcher{nodes: []trieNode{{id: NoToken}}}
	for token, id := range tokens {
		m.first[token[0]] = true
		at := int32(0)
		for i := range len(token) {
			next := m.step(at, token[i])
			if next < 0 {
				next = int32(len(m.nodes))
				m.nodes = append(m.nodes, trieNode{id: NoToken})
				m.nodes[at].edges = append(m.nodes[at].edges, trieEdge{token[i], next})
			}
			at = next
		}
		m.nodes[at].id = id
	}
	return m
}

// step returns the child of a node along b, or -1.
func (m *matcher) step(node int32, b byte) int32 {
	for _, e := range m.nodes[node].edges {
		if e.b == b {
			return e.node
		}
	}
	return -1
}

// find returns the first added token in text[from:]: its id and where it lies. It returns NoToken if there is none.
func (m *matcher) find(text string, from int) (id int32, start, end int) {
	for i := from; i < len(text); i++ {
		if !m.first[text[i]] {
			continue
		}
		id = NoToken
		at := int32(0)
		for j := i; j < len(text); j++ {
			if at = m.step(at, text[j]); at < 0 {
				break
			}
			if m.nodes[at].id != NoToken {
				id, end = m.nodes[at].id, j+1
			}
		}
		if id != NoToken {
			return id, i, end
		}
	}
	return NoToken, len(text), len(text)
}

// split calls token for every added token in text and gap for every non-empty stretch between them, in order.
func (m *matcher) split(text string, gap func(start, end int), token func(id int32, start, end int)) {
	for at := 0; at < len(text); {
		id, start, end := NoToken, len(text), len(text)
		if m != nil {
			id, start, end = m.find(text, at)
		}
		if start > at {
			gap(at, start)
		}
		if id != NoToken {
			token(id, start, end)
		}
		at = end
	}
}
