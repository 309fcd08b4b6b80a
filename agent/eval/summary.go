package eval

// Means are the averages of a group of questions over one denominator.
type Means struct {
	Questions  int      `json:"questions"` // the denominator of the trace metrics
	TAO        float64  `json:"tao"`
	TIO        float64  `json:"tio"`
	TEM        float64  `json:"tem"`
	Param      *float64 `json:"param"`      // null where there are plans without calls
	Efficiency *float64 `json:"efficiency"` // null where there are plans without calls
	Answers    int      `json:"answers"`    // the denominator of the accuracies
	Accuracy   float64  `json:"accuracy"`
	// BenchmarkAccuracy is against the benchmark's own answers.
	BenchmarkAccuracy float64 `json:"benchmark_accuracy"`
	RougeL            float64 `json:"rouge_l"`
}

// Summary is the sum of a run. Its own means keep every question: one without a
// trace scores 0, one without an answer is wrong.
type Summary struct {
	Means
	// Peer are the means as the published Earth-Agent code takes them: questions
	// without a record drop out.
	Peer      Means             `json:"peer"`
	Missing   []string          `json:"missing"` // questions without a trace
	Failed    []string          `json:"failed"`  // questions that are missing, ended in an error or have no answer
	Failures  map[string]int    `json:"failures"`
	Judge     *JudgeSummary     `json:"judge,omitempty"`
	Embedding *EmbeddingSummary `json:"embedding,omitempty"`
	Cost      *Cost             `json:"cost,omitempty"`   // over the questions whose cost the run recorded
	Funnel    *Funnel           `json:"funnel,omitempty"` // over those whose verification it recorded
}

// Summarize averages records.
func Summarize(records []Record) Summary {
	s := Summary{Missing: []string{}, Failed: []string{}, Failures: map[string]int{}}
	var traced, answered []Record
	var spent []Spent
	var verified []Verified
	for _, r := range records {
		if r.Spent != nil {
			spent = append(spent, *r.Spent)
		}
		if r.Verified != nil {
			verified = append(verified, *r.Verified)
		}
		if r.Traced {
			traced = append(traced, r)
		} else {
			s.Missing = append(s.Missing, r.Question)
		}
		if r.Answered {
			answered = append(answered, r)
		}
		switch r.Failure {
		case "":
			continue
		case FailureMissing, FailureError, FailureNoAnswer:
			s.Failed = append(s.Failed, r.Question)
		}
		s.Failures[r.Failure]++
	}
	s.Means, s.Peer = Average(records, records), Average(traced, answered)
	if len(spent) > 0 {
		c := SumCost(spent)
		s.Cost = &c
	}
	if len(verified) > 0 {
		f := NewFunnel(verified)
		s.Funnel = &f
	}
	return s
}

// Average averages the trace metrics over one set of records and the answers
// over another. Sums run in the order and manner of the published code, so that
// equal records give equal bits.
func Average(traced, answered []Record) Means {
	m := Means{Questions: len(traced), Answers: len(answered)}
	values := func(records []Record, get func(*Record) float64) []float64 {
		v := make([]float64, len(records))
		for i := range records {
			v[i] = get(&records[i])
		}
		return v
	}
	m.TAO = mean(values(traced, func(r *Record) float64 { return r.TAO }), Sum)
	m.TIO = mean(values(traced, func(r *Record) float64 { return r.TIO }), Sum)
	m.TEM = mean(values(traced, func(r *Record) float64 { return r.TEM }), Sum)
	called := true
	for _, r := range traced {
		called = called && r.Param != nil && r.Efficiency != nil
	}
	if called {
		param := mean(values(traced, func(r *Record) float64 { return *r.Param }), Sum)
		efficiency := mean(values(traced, func(r *Record) float64 { return *r.Efficiency }), CompensatedSum)
		m.Param, m.Efficiency = &param, &efficiency
	}
	m.Accuracy = mean(values(answered, func(r *Record) float64 { return indicator(r.Correct) }), Sum)
	m.BenchmarkAccuracy = mean(values(answered, func(r *Record) float64 { return indicator(r.BenchmarkCorrect) }), Sum)
	m.RougeL = mean(values(answered, func(r *Record) float64 { return r.RougeL }), Sum)
	return m
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// AddVerdicts puts the judge's verdicts, one for each record, into the file.
func (s *Scored) AddVerdicts(model string, verdicts []Verdict) {
	for i := range s.Records {
		s.Records[i].Verdict = &verdicts[i]
	}
	s.Summary.Judge = SummarizeJudge(model, verdicts)
}

// AddSimilarities puts cosines, one for each record, into the file.
func (s *Scored) AddSimilarities(model string, similarities []float64) {
	for i := range s.Records {
		s.Records[i].Similarity = &similarities[i]
	}
	s.Summary.Embedding = SummarizeEmbedding(model, similarities)
}
