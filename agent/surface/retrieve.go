package surface

import (
	"context"
	_ "embed"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"

	"terraloom/agent/tools"
	"terraloom/data/strictjson"
	"terraloom/data/strictyaml"
)

// Card is a piece of knowledge that retrieve can return.
type Card struct {
	ID    string   `yaml:"id"` // kind.name, as recipe.temporal_trend
	Title string   `yaml:"title"`
	Words []string `yaml:"words"` // by which it is found, beside those of title and text
	Text  string   `yaml:"text"`
}

// Kind is routing, recipe or knowledge.
func (c *Card) Kind() string {
	kind, _, _ := strings.Cut(c.ID, ".")
	return kind
}

//go:embed cards.yaml
var cardsYAML []byte

// Cards are the 29 cards: 3 of routing, 13 recipes, 13 of knowledge.
var Cards = sync.OnceValue(func() []Card {
	var file struct {
		Cards []Card `yaml:"cards"`
	}
	if err := strictyaml.Unmarshal(cardsYAML, "cards.yaml", &file); err != nil {
		panic("surface: " + err.Error()) // a broken build; the tests load it
	}
	return file.Cards
})

// retrieve finds the cards that share most with a query: words weighted by how
// few cards have them, those of title and words twice.
func (s *Surface) retrieve(_ context.Context, args strictjson.Value) (tools.Result, error) {
	k := 3
	if f, ok := args.Get("top_k").Float(); ok {
		k = int(f)
	}
	kind := args.Get("kind").Text()
	type hit struct {
		card  *Card
		score float64
	}
	cards := Cards()
	query := wordsOf(args.Get("query").Text())
	var hits []hit
	for i := range cards {
		c := &cards[i]
		if kind != "" && c.Kind() != kind {
			continue
		}
		strong, weak := wordsOf(c.ID+" "+c.Title+" "+strings.Join(c.Words, " ")), wordsOf(c.Text)
		score := 0.0
		for w := range query {
			if strong[w] {
				score += 2 * rarity(w)
			} else if weak[w] {
				score += rarity(w)
			}
		}
		if score > 0 {
			hits = append(hits, hit{c, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return strings.Compare(a.card.ID, b.card.ID)
	})
	e := tools.Evidence{Family: tools.Retrieve, Formula: "cards by the words that they share with the query", Used: len(hits)}
	if len(hits) == 0 {
		e.Nodes = []tools.Node{{Name: Retrieve, Output: strictjson.NullValue(), Total: len(cards), Status: tools.Insufficient, Reason: "no shared word"}}
		return lacking(e, "no card is about this; use the words of a sensor, quantity or analysis"), nil
	}
	var list []strictjson.Value
	for _, h := range hits[:min(k, len(hits))] {
		c := h.card
		list = append(list, obj(m("id", strictjson.Text(c.ID)), m("kind", strictjson.Text(c.Kind())), m("title", strictjson.Text(c.Title)), m("text", strictjson.Text(c.Text))))
		e.Nodes = append(e.Nodes, tools.Node{Name: c.ID, Output: strictjson.Float(math.Round(100*h.score) / 100), Valid: 1, Total: 1, Status: tools.OK})
	}
	return tools.Result{Value: strictjson.List(list...), Evidence: e}, nil
}

// wordsOf are the words of a text without endings and without those that carry
// nothing.
func wordsOf(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(w) > 4 {
			w = strings.TrimSuffix(w, "s")
		}
		if len(w) > 1 && !empty[w] {
			out[w] = true
		}
	}
	return out
}

// empty are words that say nothing about a card.
var empty = map[string]bool{"the": true, "of": true, "and": true, "or": true, "in": true, "is": true, "an": true, "to": true, "for": true, "with": true, "by": true,
	"from": true, "how": true, "what": true, "which": true, "do": true, "it": true, "at": true, "on": true, "are": true, "be": true, "as": true, "that": true, "not": true, "image": true}

// rarity is the weight of a word: the fewer cards have it, the more it tells.
func rarity(word string) float64 { return frequencies()[word] }

var frequencies = sync.OnceValue(func() map[string]float64 {
	n := map[string]float64{}
	cards := Cards()
	for i := range cards {
		c := &cards[i]
		for w := range wordsOf(c.ID + " " + c.Title + " " + strings.Join(c.Words, " ") + " " + c.Text) {
			n[w]++
		}
	}
	for w, k := range n {
		n[w] = math.Log(1 + float64(len(cards))/k)
	}
	return n
})
